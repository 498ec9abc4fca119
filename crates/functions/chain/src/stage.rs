//! One function at its place in a slice's chain: a closed set, so that a batch costs one branch a
//! function, and one call more where it is somebody else's.

use std::any::Any;
use std::net::IpAddr;

use base::{Nanos, PortId};
use calisto_nf::router::Wanted;
use calisto_nf::{
    Acl, Balancer, Esp, FibChange, Firewall, Function, L2, Mirror, Nat, Own, Policer, Router,
    Tunnel, Verdicts,
};
use crypto::IpsecMb;
use shm::{Batch, Frame};

use crate::board::Label;

/// A function.
pub(crate) enum Stage {
    Router(Box<Router>),
    Acl(Box<Acl>),
    Policer(Box<Policer>),
    L2(L2),
    Firewall(Box<Firewall>),
    Esp(Box<Esp<IpsecMb>>),
    Nat(Box<Nat>),
    Balancer(Box<Balancer>),
    Tunnel(Box<Tunnel>),
    Mirror(Box<Mirror>),
    Own(Box<dyn Own>),
}

impl Stage {
    fn function(&self) -> &dyn Function {
        match self {
            Self::Router(router) => &**router,
            Self::Acl(acl) => &**acl,
            Self::Policer(policer) => &**policer,
            Self::L2(l2) => l2,
            Self::Firewall(firewall) => &**firewall,
            Self::Esp(esp) => &**esp,
            Self::Nat(nat) => &**nat,
            Self::Balancer(balancer) => &**balancer,
            Self::Tunnel(tunnel) => &**tunnel,
            Self::Mirror(mirror) => &**mirror,
            Self::Own(own) => &**own,
        }
    }

    /// What stands where another stage is to be put.
    pub(crate) fn stand_in() -> Self {
        Self::L2(L2::default())
    }

    /// Goes on where `before`, whose place it takes, has come to, if that is of the same kind.
    pub(crate) fn take_over(&mut self, before: &mut Self) {
        match (self, before) {
            (Self::Router(new), Self::Router(old)) => new.take_over(old),
            (Self::Acl(new), Self::Acl(old)) => new.take_over(old),
            (Self::Policer(new), Self::Policer(old)) => new.take_over(old),
            (Self::L2(new), Self::L2(old)) => new.take_over(old),
            (Self::Firewall(new), Self::Firewall(old)) => new.take_over(old),
            (Self::Esp(new), Self::Esp(old)) => new.take_over(old),
            (Self::Nat(new), Self::Nat(old)) => new.take_over(old),
            (Self::Balancer(new), Self::Balancer(old)) => new.take_over(old),
            (Self::Tunnel(new), Self::Tunnel(old)) => new.take_over(old),
            (Self::Mirror(new), Self::Mirror(old)) => new.take_over(old),
            (Self::Own(new), Self::Own(old)) => new.take_over(&mut **old as &mut dyn Any),
            // Named one by one, so that a new kind cannot be forgotten above.
            (
                Self::Router(_)
                | Self::Acl(_)
                | Self::Policer(_)
                | Self::L2(_)
                | Self::Firewall(_)
                | Self::Esp(_)
                | Self::Nat(_)
                | Self::Balancer(_)
                | Self::Tunnel(_)
                | Self::Mirror(_)
                | Self::Own(_),
                _,
            ) => {}
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.function().name()
    }

    pub(crate) fn counters(&self, each: &mut dyn FnMut(Label, Label, u64)) {
        let function = self.function();
        function.counters(&mut |name, help, value| each(name.into(), help.into(), value));
        function.named_counters(&mut |name, help, value| each(name.into(), help.into(), value));
    }

    #[inline]
    pub(crate) fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        match self {
            Self::Router(router) => router.process(batch, verdicts, now),
            Self::Acl(acl) => acl.process(batch, verdicts, now),
            Self::Policer(policer) => policer.process(batch, verdicts, now),
            Self::L2(l2) => l2.process(batch, verdicts, now),
            Self::Firewall(firewall) => firewall.process(batch, verdicts, now),
            Self::Esp(esp) => esp.process(batch, verdicts, now),
            Self::Nat(nat) => nat.process(batch, verdicts, now),
            Self::Balancer(balancer) => balancer.process(batch, verdicts, now),
            Self::Tunnel(tunnel) => tunnel.process(batch, verdicts, now),
            Self::Mirror(mirror) => mirror.process(batch, verdicts, now),
            Self::Own(own) => own.process(batch, verdicts, now),
        }
    }

    /// Whether it puts packets into others, or changes who they come from.
    #[inline]
    pub(crate) fn makes_packets(&self) -> bool {
        match self {
            Self::Esp(_) | Self::Nat(_) | Self::Balancer(_) | Self::Tunnel(_) => true,
            Self::Own(own) => own.makes_packets(),
            Self::Router(_)
            | Self::Acl(_)
            | Self::Policer(_)
            | Self::L2(_)
            | Self::Firewall(_)
            | Self::Mirror(_) => false,
        }
    }

    /// Lets a router refuse of packets that have just come what no function is to see; whether it
    /// has.
    #[inline]
    pub(crate) fn admit(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) -> bool {
        match self {
            Self::Router(router) => router.admit(batch, verdicts, now),
            _ => false,
        }
    }

    /// Shows it what is to leave, once the last stage has decided.
    #[inline]
    pub(crate) fn leave(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        match self {
            Self::Nat(nat) => nat.leave(batch, verdicts, now),
            Self::Balancer(balancer) => balancer.leave(batch, verdicts, now),
            Self::Own(own) => own.leave(batch, verdicts, now),
            _ => {}
        }
    }

    /// Takes one step of the control side.
    pub(crate) fn apply(&mut self, change: &FibChange) {
        if let Self::Router(router) = self {
            router.apply(change);
        }
    }

    /// Neighbours whose link addresses packets wait for.
    pub(crate) fn take_wanted(&mut self, mut each: impl FnMut(PortId, IpAddr)) {
        if let Self::Router(router) = self {
            router.take_wanted().for_each(|Wanted { port, address }| each(port, address));
        }
    }

    /// Whether packets that waited may go on.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        matches!(self, Self::Router(router) if router.is_due(now))
    }

    /// Appends packets that waited to `batch`, to be processed from this stage on.
    pub(crate) fn release(
        &mut self,
        batch: &mut Batch,
        now: Nanos,
        take: &mut dyn FnMut() -> Option<Frame>,
    ) {
        if let Self::Router(router) = self {
            router.release(batch, now, take);
        }
    }

    /// The port by which copies that it has made are to leave; nothing: there are none.
    #[inline]
    pub(crate) fn copies_to(&self) -> Option<PortId> {
        if let Self::Mirror(mirror) = self { mirror.copies_to() } else { None }
    }

    /// Appends copies that it has made to `batch`, of `most` bytes each.
    pub(crate) fn release_copies(
        &mut self,
        batch: &mut Batch,
        most: usize,
        take: &mut dyn FnMut() -> Option<Frame>,
    ) {
        if let Self::Mirror(mirror) = self {
            mirror.release(batch, most, take);
        }
    }

    /// Tells it how many of those copies were not sent.
    pub(crate) fn lose_copies(&mut self, copies: usize) {
        if let Self::Mirror(mirror) = self {
            mirror.lose(copies);
        }
    }
}

//! What an operator can ask, and how the loop answers.

use admin::{Command, ReplyBody, Request, Target};
use base::{FlowGroup, Nanos, WorkerId};
use config::Config;
use datapath::{AttachmentId, CAPTURES_MAX, CaptureTap, DetachReason, Steering};
use policy::Entry;
use policy::steer::{self, SteerConfig};
use wire::FlowKey;

use crate::admin_socket::error;
use crate::ask::{Answer, Ask, Question};
use crate::changes::LoopChange;
use crate::event_loop::{EventLoop, Export};
use crate::pins::Pinned;
use crate::status::steer_status;
use crate::workers_wanted::WorkersWanted;

/// Between the question and the answer.
const GONE: &str = "it has just gone";

/// Why connections cannot be shared out.
const ONE_WORKER: &str = "a connection has one worker, and \"shared\" gives any worker any packet";

impl EventLoop {
    pub(crate) fn answer(&mut self, ask: Ask, now: Nanos) {
        let Ask { question, asker } = ask;
        let body = match question {
            Question::Load(app, owners) => self.load(app.as_deref(), owners),
            Question::Apply(change) => done(self.apply(*change)),
            Question::Propose(app, proposal, client) => {
                done(self.propose(app.as_deref(), &proposal, client, now))
            }
            Question::Request(Request { app, command: Command::SteerExport, .. }) => {
                match self.app_named(app.as_deref()) {
                    Ok(app) => {
                        self.exports.push(Export { app, entries: Vec::new(), asker });
                        return;
                    }
                    Err(why) => error(&why),
                }
            }
            Question::Request(Request { app, command, .. }) => {
                match self.app_named(app.as_deref()) {
                    Ok(app) => self.command(app, command, now),
                    Err(why) => self.departed(app.as_deref(), &command).unwrap_or(error(&why)),
                }
            }
            other => {
                let answer = self.answer_within(other, now);
                return asker.answer(answer);
            }
        };
        asker.reply(body);
    }

    /// The application of that name or number; without one, the own workers.
    pub(crate) fn app_named(&self, app: Option<&str>) -> Result<AttachmentId, String> {
        app.map_or(Ok(AttachmentId::OWN), |text| {
            self.attached_apps.find(text).map(|app_dispatch| app_dispatch.id)
        })
    }

    /// What other threads of the daemon ask for themselves.
    fn answer_within(&mut self, question: Question, now: Nanos) -> Answer {
        match question {
            Question::Workers(app) => Answer::Workers(self.active_workers(app.as_deref())),
            Question::Sample(app, since) => {
                Answer::Sample(Box::new(self.sample(app.as_deref(), since, now)))
            }
            Question::TableLen(app) => Answer::TableLen(self.table_len(app.as_deref())),
            Question::Record(app, recorder) => {
                Answer::Recording(Box::new(self.begin_recording(app.as_deref(), recorder)))
            }
            Question::Recorded(app, empty) => {
                Answer::Recorded(self.take_recorded(app.as_deref(), empty))
            }
            Question::RecordEnd(app) => Answer::RecordEnded(self.end_recording(app.as_deref())),
            Question::Capture(id, app, tap) => {
                Answer::Capturing(self.begin_capture(id, app.as_deref(), tap))
            }
            Question::CaptureEnd(id) => Answer::CaptureEnded(self.dispatcher.end_capture(id)),
            Question::Attach(arrival) => Answer::Attached(self.attach(*arrival)),
            Question::ClientGone(client) => {
                self.client_gone(client);
                Answer::Done
            }
            Question::Leave(app, reason) => {
                self.detach(app, reason, now);
                Answer::Done
            }
            Question::Request(_)
            | Question::Load(..)
            | Question::Propose(..)
            | Question::Apply(_) => Answer::Done,
        }
    }

    fn begin_capture(
        &mut self,
        id: u64,
        app: Option<&str>,
        mut tap: Box<CaptureTap>,
    ) -> Result<Vec<String>, (String, Box<CaptureTap>)> {
        match app.map(|text| self.app_named(Some(text))) {
            Some(Ok(app)) => tap.restrict_to(app),
            Some(Err(why)) => return Err((why, tap)),
            None => {}
        }
        let begun = self.dispatcher.begin_capture(id, tap);
        let why = format!("{CAPTURES_MAX} captures go on already: end one");
        begun.map(|()| self.config.ports.clone()).map_err(|tap| (why, tap))
    }

    fn active_workers(&self, app: Option<&str>) -> Result<Vec<WorkerId>, String> {
        let steering = self.dispatcher.steering_of(self.app_named(app)?).ok_or(GONE)?;
        Ok(steering.control().workers().active().to_vec())
    }

    fn load(&mut self, app: Option<&str>, owners: Vec<Entry>) -> ReplyBody {
        let app = match self.app_named(app) {
            Ok(app) => app,
            Err(why) => return error(&why),
        };
        let Some(steering) = self.dispatcher.steering_of_mut(app) else { return error(GONE) };
        let (control, live) = steering.control_mut();
        done(control.load(owners, live))
    }

    fn command(&mut self, app: AttachmentId, command: Command, now: Nanos) -> ReplyBody {
        let Some(steering) = self.dispatcher.steering_of_mut(app) else {
            return error(GONE);
        };
        match command {
            Command::Status => ReplyBody::Status(self.status(now)),
            Command::Stats => ReplyBody::Stats { threads: self.stats() },
            Command::Flows { count } => ReplyBody::Flows { flows: self.flows(app, count) },
            Command::SteerShow => {
                let mut steer = steer_status(steering);
                if app == AttachmentId::OWN {
                    steer.pinned = self.pins.named();
                    steer.pins_pending = self.pins.pending() as u32;
                }
                ReplyBody::Steer(steer)
            }
            Command::SteerSet { policy }
                if app == AttachmentId::OWN
                    && policy == "shared"
                    && self.worker_pool.engines().is_some() =>
            {
                error(ONE_WORKER)
            }
            Command::SteerSet { policy } => steer_set(steering, &policy, self.seed),
            Command::SteerPin { target, worker } => self.pin_target(app, &target, WorkerId(worker)),
            Command::SteerUnpin { target } => self.unpin_target(app, &target),
            Command::Workers { count } if app == AttachmentId::OWN => self.workers(count),
            Command::Workers { .. } => {
                error("an application has the workers that it has attached with")
            }
            Command::Apps => ReplyBody::Apps { apps: self.apps() },
            Command::Explain => match self.explain(app) {
                Some(app) => ReplyBody::Explain { app },
                None => error(GONE),
            },
            Command::Detach => {
                self.detach(app, DetachReason::Operator, now);
                ReplyBody::Done
            }
            Command::Cores => ReplyBody::Cores(self.cores_status(now)),
            Command::CoresSet { policy } => self.cores_set(&policy),
            Command::Stop => {
                self.drain.ask();
                ReplyBody::Done
            }
            // The admin thread turns these into other questions.
            Command::SteerLoad { .. }
            | Command::SteerExport
            | Command::Watch { .. }
            | Command::Plan { .. }
            | Command::Record { .. }
            | Command::Sockets { .. }
            | Command::Fallbacks
            | Command::Reload
            | Command::Log { .. }
            | Command::Trace { .. }
            | Command::Capture(_) => error("not answered this way"),
        }
    }

    fn cores_set(&mut self, policy: &str) -> ReplyBody {
        if let Err(why) = self.check_cores_policy(policy) {
            return error(&why);
        }
        match (policy::cores::by_name(policy), &mut self.cores) {
            (Ok(policy), Some(cores)) => {
                cores.allocator.control().set_policy(policy);
                ReplyBody::Done
            }
            (Ok(_), None) => error(
                "no cores are given out: start the daemon again with `calisto up --cores LIST`, or \
                 name some in `cores.set` of its configuration",
            ),
            (Err(unknown), _) => error(&unknown.to_string()),
        }
    }

    /// Whether everybody goes on running under that policy.
    fn check_cores_policy(&self, policy: &str) -> Result<(), String> {
        let Some(cores) = &self.cores else { return Ok(()) };
        if policy::cores::gives_only_guaranteed(policy) {
            let without = cores.without_guarantee().map(|id| match id {
                AttachmentId::OWN => "the daemon's own workers (`cores.guaranteed`)".to_owned(),
                id => match self.attached_apps.present().iter().find(|app| app.id == id) {
                    Some(app) => format!("{} (number {id})", app.facts.name),
                    None => format!("application {id}"),
                },
            });
            let without: Vec<String> = without.collect();
            if !without.is_empty() {
                return Err(format!(
                    "{policy} gives out guaranteed cores only, and none is guaranteed to {}: they would \
                     never run again",
                    without.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// A changed configuration holds from now on: all of it, or nothing.
    fn apply(&mut self, change: LoopChange) -> Result<(), String> {
        let LoopChange { config, listeners, pins } = change;
        let is_other = |name: fn(&Config) -> &str| name(&config) != name(&self.config);
        let steers_anew = is_other(|config| config.steer.policy.as_str());
        let is_served = self.worker_pool.engines().is_some();
        if steers_anew && is_served && config.steer.policy == "shared" {
            return Err(format!("steer.policy: {ONE_WORKER}"));
        }
        let gives_anew = is_other(Config::cores_policy);
        if gives_anew {
            self.check_cores_policy(config.cores_policy())?;
        }
        // What can fail comes first, and this is the last of it.
        if let Some(listeners) = listeners {
            let replaced = self.dispatcher.replace_own_listeners(&listeners);
            replaced.map_err(|taken| format!("listen: {taken}"))?;
        }
        if steers_anew {
            steer_set(self.dispatcher.steering_mut(), &config.steer.policy, self.seed);
        }
        if gives_anew && self.cores.is_some() {
            self.cores_set(config.cores_policy());
        }
        if config.workers.count != self.config.workers.count {
            self.workers_wanted = WorkersWanted::new(config.workers.count);
        }
        self.pins.want(pins);
        self.config = config;
        Ok(())
    }

    fn workers(&mut self, count: u16) -> ReplyBody {
        if count == 0 || count > self.config.workers.max {
            return error(&format!(
                "{count} workers are not possible: 1 to {} (`workers.max`)",
                self.config.workers.max
            ));
        }
        self.workers_wanted = WorkersWanted::new(count);
        ReplyBody::Done
    }

    fn pin_target(&mut self, app: AttachmentId, target: &Target, worker: WorkerId) -> ReplyBody {
        match pinned(target) {
            Ok(what) => done(self.pin(app, what, worker)),
            Err(wrong) => error(&wrong),
        }
    }

    fn unpin_target(&mut self, app: AttachmentId, target: &Target) -> ReplyBody {
        match pinned(target) {
            Ok(what) if self.unpin(app, what) => ReplyBody::Done,
            Ok(_) => error("it is not pinned: see `calisto steer show`"),
            Err(wrong) => error(&wrong),
        }
    }
}

fn pinned(target: &Target) -> Result<Pinned, String> {
    match target {
        Target::Group(group) => Ok(Pinned::Group(FlowGroup(*group))),
        Target::Flow(text) => {
            let flow = text.parse::<FlowKey>().map_err(|wrong| wrong.to_string())?;
            Ok(Pinned::Flow(flow))
        }
    }
}

fn steer_set(steering: &mut Steering, name: &str, seed: u64) -> ReplyBody {
    let groups = steering.table().len();
    match steer::by_name(name, SteerConfig { groups, seed }) {
        Ok(steer) => {
            steering.control_mut().0.set_policy(steer);
            ReplyBody::Done
        }
        Err(unknown) => error(&unknown.to_string()),
    }
}

fn done<E: std::fmt::Display>(result: Result<(), E>) -> ReplyBody {
    result.map_or_else(|refused| error(&refused.to_string()), |()| ReplyBody::Done)
}

//! What the kernel's routes cost in memory while they are followed.

use std::net::{IpAddr, Ipv4Addr};

use chain::ports::{PortInterface, Ports};
use chain::routes::kernel::KernelRoutes;
use sys::counting_alloc::{CountingAllocator, process_allocated_bytes};
use sys::route::{Entry, EntryKind, TABLE_MAIN};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const ROUTES: u32 = 200_000;
/// Next hops of those routes: as many as a router of the Internet has peers.
const GATEWAYS: u32 = 500;

#[test]
fn a_route_that_shares_its_next_hop_with_others_costs_less_than_sixty_bytes() {
    let interface = PortInterface { name: "eth0".to_owned(), index: 4, mac: [2; 6], mtu: 1500 };
    let mut routes = KernelRoutes::new(Ports::new(vec![interface]));
    let before = process_allocated_bytes();
    for number in 0..ROUTES {
        let gateway = Ipv4Addr::from_bits(0x0a00_0001 + number % GATEWAYS);
        routes.add(&Entry {
            destination: IpAddr::V4(Ipv4Addr::from_bits((number + 0x1_0000) << 8)),
            prefix_bits: 24,
            table: TABLE_MAIN,
            metric: 20,
            tos: 0,
            kind: EntryKind::Unicast,
            interface: 4,
            gateway: Some(gateway.into()),
            further_hops: 0,
            mtu: None,
            is_alive: true,
        });
    }
    let each = (process_allocated_bytes() - before) / u64::from(ROUTES);
    assert_eq!(routes.len(), (ROUTES as usize, 0));
    assert!(each < 60, "{each} bytes each");
}

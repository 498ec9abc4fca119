//! What is still mapped when a program, or the whole data path, has gone.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use datapath::Sink;
use port::Port;
use shm::Doorbell;

use super::*;
use crate::BuiltIn;

/// The number of the file behind a region: no other region that is still somewhere has it.
fn inode(region: &impl AsFd) -> u64 {
    let file = region.as_fd().try_clone_to_owned().expect("fds are left");
    std::fs::File::from(file).metadata().expect("it is open").ino()
}

/// Whether this process maps any of that file.
fn is_mapped(inode: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.lines().any(|line| {
        line.contains("/memfd:") && line.split_whitespace().nth(4) == Some(&inode.to_string())
    })
}

/// Every worker that serves sockets ends, as asked: their flows' packets go to one that keeps none.
/// Then the ports give back what was on its way.
fn end(bench: &mut Bench) {
    let last = bench.dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
    let last = last.expect("there are ids");
    for (id, _) in &bench.workers {
        bench.dispatcher.steering_mut().remove_worker(*id);
    }
    let id = last.id;
    bench.workers.push((id, last.employ(BuiltIn::Sink(Sink))));
    bench.turns(50);
    assert!(bench.workers.iter().all(|(other, _)| *other == id), "workers do not end");
    bench.dispatcher.close();
    bench.port.close(bench.dispatcher.ports_and_pool().1);
}

#[test]
fn nothing_of_a_program_stays_mapped_when_it_has_gone_however_it_left_its_sockets() {
    let command_queue = CommandQueue::new(|| (), || ());
    let mut bench =
        Bench::with_command_queue(ServiceKind::Sockets, 2, 512, Some(command_queue.clone()));
    for round in 0..20 {
        let mut app = App::with_user(command_queue.clone(), 5, 1000, 7);
        let inode = inode(&app.streams.server.memory().descriptor());
        let streams = Arc::downgrade(&app.streams);
        datagrams_on(&app, 9);
        bench.turns(2);
        let talks = bench.talks(6);
        bench.turns(5);
        // Two wait to be accepted; of the others some have bytes unread, or unsent.
        app.accept();
        for (number, talk) in talks.iter().enumerate() {
            bench.write(talk.flow, &vec![7; 700 * number]);
        }
        let slots = app.accepted.clone();
        for (number, slot) in slots.into_iter().enumerate() {
            app.write(slot, &vec![8; 300 * number]);
        }
        let more = bench.talks(2);
        // Every other program goes while its flows are between two workers.
        if round % 2 == 1 {
            let first = bench.workers[0].0;
            bench.dispatcher.steering_mut().remove_worker(first);
            bench.spawn();
        }
        bench.turns(1 + round % 3);
        assert!(is_mapped(inode), "the test looks at the right file");
        command_queue.command(&Command::Remove { app: AppId(5) });
        drop(app);
        bench.turns(200);
        assert_eq!(streams.strong_count(), 0, "somebody keeps program {round}");
        assert!(!is_mapped(inode), "memory of program {round} is mapped");
        for talk in talks.iter().chain(&more) {
            let _ = bench.engine.abort(talk.flow);
        }
        bench.turns(5);
    }
}

#[test]
fn every_frame_is_back_and_nothing_stays_mapped_when_a_data_path_has_ended_in_order() {
    let (mut bench, mut app) = bench(2, None);
    let inode = inode(&**bench.dispatcher.pool().region());
    bench.turns(2);
    let mut talks = bench.talks(10);
    let mut unsent = std::collections::BTreeMap::new();
    for round in 0..20 {
        bench.talk(&mut talks, round);
        app.echo(&mut unsent);
    }
    assert!(bench.dispatcher.pool().outstanding() > 0, "workers have spare frames");
    end(&mut bench);
    assert_eq!(bench.dispatcher.pool().outstanding(), 0);
    assert!(is_mapped(inode), "the test looks at the right file");
    drop(bench);
    assert!(!is_mapped(inode), "the frames are mapped");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections. Each test runs on any backend.

mod harness;

use fiberrt::net::{TcpListener, TcpStream};
use fiberrt::{run, scope, sleep, spawn, timeout};
use std::io::{copy, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(2);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    scope(|s| {
        let client = s.spawn(move || TcpStream::connect(address).unwrap());
        let (server, _) = listener.accept().unwrap();
        (client.join().unwrap(), server)
    })
}

fn an_echo_server_serves_many() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peers = scope(|s| {
        let server = s.spawn(move || {
            let mut peers = Vec::new();
            for _ in 0..20 {
                let (stream, peer) = listener.accept().unwrap();
                peers.push(peer);
                s.spawn(move || copy(&mut &stream, &mut &stream).unwrap());
            }
            peers
        });
        for i in 0..20 {
            s.spawn(move || {
                let stream = TcpStream::connect(address.to_string()).unwrap();
                assert_eq!(stream.peer_addr().unwrap(), address);
                writeln!(&stream, "line {}", i).unwrap();
                sleep(SHORT);
                stream.shutdown(Shutdown::Write).unwrap();
                let mut lines = BufReader::new(&stream).lines();
                assert_eq!(lines.next().unwrap().unwrap(), format!("line {}", i));
                assert!(lines.next().is_none());
                stream.local_addr().unwrap()
            });
        }
        server.join().unwrap()
    });
    assert!(peers.iter().all(|peer| peer.ip() == address.ip()) && peers.len() == 20);
}

fn reads_and_writes_have_limits() {
    let (mut client, server) = pair();
    assert_eq!(client.set_read_timeout(Some(Duration::from_secs(0))).unwrap_err().kind(), ErrorKind::InvalidInput);
    client.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(client.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::TimedOut);
    client.set_read_timeout(None).unwrap();
    client.set_write_timeout(Some(SHORT)).unwrap();
    let block = vec![0; 1 << 20];
    let error = (0..100).find_map(|_| client.write_all(&block).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(server);
}

fn a_timeout_and_a_cancel_end_a_read() {
    let (client, server) = pair();
    let (client, server) = (&client, &server);
    run(|| {
        assert!(timeout(SHORT, || (&mut &*client).read(&mut [0; 1]).is_ok()).is_err());
    });
    scope(|s| {
        let reading = s.spawn(move || (&mut &*client).read(&mut [0; 1]).is_ok());
        sleep(SHORT);
        reading.cancel();
        assert!(reading.join().unwrap_err().is_cancelled());
        (&mut &*server).write_all(b"x").unwrap(); // the connection still works
        let mut byte = [0];
        (&mut &*client).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    });
}

fn a_cancel_ends_accept() {
    run(|| {
        let fiber = spawn(|| TcpListener::bind("127.0.0.1:0").unwrap().incoming().next().is_some());
        sleep(SHORT);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is_cancelled());
    });
}

fn a_writer_dropped_while_its_fiber_unwinds_does_not_end_the_process() {
    let (client, mut server) = pair();
    scope(|s| {
        let fiber = s.spawn(move || {
            let mut writer = BufWriter::new(client);
            writer.write_all(b"never sent").unwrap();
            sleep(LONG);
        });
        sleep(SHORT);
        fiber.cancel(); // the drop of the writer tries to write
        assert!(fiber.join().unwrap_err().is_cancelled());
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    });
}

fn a_writer_dropped_in_a_closure_that_never_runs_does_not_panic() {
    let (client, mut server) = pair();
    client.set_write_timeout(Some(LONG)).unwrap();
    scope(|s| {
        let mut writer = BufWriter::new(client);
        writer.write_all(b"never sent").unwrap();
        let fiber = s.spawn(move || drop(writer));
        fiber.cancel(); // before it has run
        assert!(fiber.join().unwrap_err().is_cancelled());
    });
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}

fn addresses_that_do_not_work() {
    let unused: SocketAddr = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    assert_eq!(TcpStream::connect(unused).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    for wrong in ["unix:/tmp/socket", "127.0.0.1", "127.0.0.1:\0", "127.0.0.1:0"] {
        assert_eq!(TcpStream::connect(wrong).unwrap_err().kind(), ErrorKind::InvalidInput, "{}", wrong);
    }
}

fn connections_convert_from_and_into_std() {
    let (client, server) = pair();
    client.as_std().set_nodelay(true).unwrap();
    assert!(client.as_std().nodelay().unwrap());
    let plain: std::net::TcpStream = client.into();
    let client = TcpStream::from(plain);
    (&mut &server).write_all(b"abc").unwrap();
    drop(server);
    let mut text = String::new();
    (&mut &client).read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
    let listener: std::net::TcpListener = TcpListener::bind("127.0.0.1:0").unwrap().into();
    assert_eq!(TcpListener::from(listener).as_std().local_addr().unwrap().ip().to_string(), "127.0.0.1");
}

fn main() {
    harness::run(&[
        ("an_echo_server_serves_many", an_echo_server_serves_many),
        ("reads_and_writes_have_limits", reads_and_writes_have_limits),
        ("a_timeout_and_a_cancel_end_a_read", a_timeout_and_a_cancel_end_a_read),
        ("a_cancel_ends_accept", a_cancel_ends_accept),
        (
            "a_writer_dropped_while_its_fiber_unwinds_does_not_end_the_process",
            a_writer_dropped_while_its_fiber_unwinds_does_not_end_the_process,
        ),
        (
            "a_writer_dropped_in_a_closure_that_never_runs_does_not_panic",
            a_writer_dropped_in_a_closure_that_never_runs_does_not_panic,
        ),
        ("addresses_that_do_not_work", addresses_that_do_not_work),
        ("connections_convert_from_and_into_std", connections_convert_from_and_into_std),
    ]);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An echo server with a fiber for each connection: `echo ADDRESS`. Without an address it serves three clients in
//! the same process, and ends.

use fiberrt::net::{TcpListener, TcpStream};
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    for line in BufReader::new(&stream).lines() {
        writeln!(&stream, "{}", line?)?;
    }
    Ok(())
}

fn listen(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    for stream in listener.incoming() {
        let stream = stream?;
        fiberrt::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("echo: {}", error);
            }
        });
    }
    Ok(())
}

fn serve_own_clients() -> io::Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    fiberrt::scope(|s| {
        let server = s.spawn(|| {
            for stream in listener.incoming() {
                s.spawn(move || serve(stream?));
            }
            Ok::<(), io::Error>(())
        });
        let clients: Vec<_> = (0..3)
            .map(|i| {
                s.spawn(move || {
                    let stream = TcpStream::connect(address)?;
                    writeln!(&stream, "line {}", i)?;
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line)?;
                    Ok::<bool, io::Error>(line == format!("line {}\n", i))
                })
            })
            .collect();
        let mut served = 0;
        for client in clients {
            served += usize::from(client.join().expect("a client")?);
        }
        server.cancel(); // accept unwinds
        Ok(served)
    })
}

fn main() -> io::Result<()> {
    match std::env::args().nth(1) {
        Some(address) => fiberrt::run(|| listen(&address)),
        None => {
            println!("{} clients were served", serve_own_clients()?);
            Ok(())
        }
    }
}

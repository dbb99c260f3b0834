// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs tests one after the other on the process's first thread, which Rust's own harness does not: a simulation has
//! only that thread, and the library notices deadlocks only in a process without others. Arguments choose tests whose
//! names contain one of them.

use std::panic::catch_unwind;
use std::process::{exit, Command};

pub fn run(tests: &[(&str, fn())]) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in tests {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let succeeded = catch_unwind(test).is_ok();
        println!("test {} ... {}", name, if succeeded { "ok" } else { "FAILED" });
        if succeeded {
            passed += 1;
        } else {
            failed.push(name);
        }
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("test result: {}. {} passed; {} failed; 0 ignored", word, passed, failed.len());
    if !failed.is_empty() {
        println!("failed: {:?}", failed);
        exit(1);
    }
}

/// Runs one test of this program in another process, with REFUSED set, and returns its error output; it must be aborted.
#[allow(dead_code)] // not by each program
pub fn abort_of(test: &str, refused: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg(test).env("REFUSED", refused).output().unwrap();
    assert_eq!(output.status.signal(), Some(6), "{:?}", output);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

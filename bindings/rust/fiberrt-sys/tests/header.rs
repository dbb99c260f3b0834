// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares src/bindings.rs with fiberrt.h: translates each item back into C, and lets the C compiler compare it with
//! the header. A function must have the same type, a structure the same members at the same places, a constant the same
//! value and type; and no function of the header may be missing. CC names the compiler, FIBERRT_INCLUDE the header's
//! folder.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BINDINGS: &str = include_str!("../src/bindings.rs");

/// Structures of the C library; the other names of the crate `libc` are typedefs in C, too.
const STRUCTS: [&str; 7] = ["addrinfo", "iovec", "msghdr", "open_how", "signalfd_siginfo", "sockaddr", "statx"];

fn base(rust: &str) -> String {
    let c = match rust {
        "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "c_uint" => "unsigned",
        "u8" => "uint8_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        other => match other.strip_prefix("libc::") {
            Some(name) if STRUCTS.contains(&name) => return format!("struct {}", name),
            Some(name) => name,
            None => other,
        },
    };
    c.to_string()
}

/// Declares `name` with a type of Rust, in C. `constant`: the object itself is const.
fn declare(rust: &str, name: &str, constant: bool) -> String {
    let rust = rust.trim();
    let qualifier = if constant { "const " } else { "" };
    if let Some(to) = rust.strip_prefix("*const ") {
        return declare(to, &format!("*{}{}", qualifier, name), true);
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return declare(to, &format!("*{}{}", qualifier, name), false);
    }
    if let Some(array) = rust.strip_prefix('[') {
        let (of, size) = array.trim_end_matches(']').rsplit_once("; ").unwrap();
        return declare(of, &format!("{}[{}]", name, size.trim_end_matches(" as usize")), constant);
    }
    if let Some(function) = rust.strip_prefix("Option<unsafe extern \"C\" fn(") {
        let (parameters, result) = split_function(function.strip_suffix('>').unwrap());
        return declare(result, &format!("(*{}{})({})", qualifier, name, parameters_of(parameters)), false);
    }
    format!("{}{} {}", qualifier, base(rust), name)
}

/// Splits what follows the opening parenthesis of a function into its parameters and its result.
fn split_function(text: &str) -> (&str, &str) {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            let result = text[at + 1..].trim().trim_end_matches(',').trim_start_matches("-> ");
            return (&text[..at], if result.is_empty() { "c_void" } else { result });
        }
    }
    panic!("no closing parenthesis: {}", text)
}

/// Splits at the commas outside of brackets, into names (maybe empty) and types.
fn parts(text: &str) -> Vec<(String, String)> {
    let (mut depth, mut begin, mut out) = (0, 0, Vec::new());
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        depth += match letter {
            '(' | '[' | '<' => 1,
            ')' | ']' => -1,
            '>' if !text[..at].ends_with('-') => -1,
            _ => 0,
        };
        if letter == ',' && depth == 0 {
            let part = text[begin..at].trim();
            begin = at + 1;
            if part.is_empty() {
                continue;
            }
            // "::" of libc:: is no separator
            match part.split_once(": ") {
                Some((name, rust)) => out.push((name.trim_start_matches("pub ").replace("r#", ""), rust.to_string())),
                None => out.push((String::new(), part.to_string())),
            }
        }
    }
    out
}

fn parameters_of(text: &str) -> String {
    let all: Vec<String> = parts(text).iter().map(|(name, rust)| declare(rust, name, false)).collect();
    if all.is_empty() {
        "void".to_string()
    } else {
        all.join(", ")
    }
}

/// The items of a file as rustfmt formats it, each on one line.
fn items(source: &str) -> Vec<String> {
    let words = source
        .lines()
        .filter(|line| !line.starts_with("//") && !line.trim().starts_with("#["))
        .map(|line| if line == "}" { "};" } else { line.trim() })
        .collect::<Vec<_>>()
        .join(" ")
        .replace("Option< ", "Option<")
        .replace(", >", ">");
    let (mut depth, mut begin, mut out) = (0, 0, Vec::new());
    for (at, letter) in words.char_indices() {
        depth += match letter {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        if letter == ';' && depth == 0 {
            out.push(words[begin..at].trim().to_string());
            begin = at + 1;
        }
    }
    out
}

fn comparison(header: &str) -> String {
    let mut c = String::from(
        "#define _GNU_SOURCE\n#include <fiberrt.h>\n#include <limits.h>\n#include <signal.h>\n#include <sys/stat.h>\n\
         #define SAME(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))\n",
    );
    let mut missing: BTreeSet<&str> =
        header.split("FIBERRT_LINKNAME(fiber_").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(missing.len() > 200, "few functions in the header: {}", missing.len());
    let (mut structures, mut constants) = (0, 0);
    for item in items(BINDINGS) {
        let item = item.trim_start_matches("extern \"C\" {").trim();
        if let Some(function) = item.strip_prefix("pub fn ") {
            let (name, rest) = function.split_once('(').unwrap();
            let (parameters, result) = split_function(rest);
            let declared = format!("{}({})", name, parameters_of(parameters));
            writeln!(c, "{};", declare(result, &declared, false)).unwrap();
            assert!(missing.remove(name.strip_prefix("fiber_").unwrap()), "{} is not in the header", name);
        } else if let Some(structure) = item.strip_prefix("pub struct ") {
            let (name, members) = structure.trim_end_matches('}').split_once(" {").unwrap();
            let members = parts(members);
            if members[0].0 == "private" {
                continue; // an opaque type
            }
            let fields: Vec<String> = members.iter().map(|(name, rust)| declare(rust, name, false) + ";").collect();
            writeln!(c, "typedef struct {{ {} }} rust_{};", fields.join(" "), name).unwrap();
            writeln!(c, "_Static_assert(sizeof(rust_{0}) == sizeof({0}), \"{0}\");", name).unwrap();
            for (member, _) in members {
                writeln!(
                    c,
                    "_Static_assert(offsetof(rust_{0}, {1}) == offsetof({0}, {1}) && \
                     SAME(((rust_{0} *)0)->{1}, (({0} *)0)->{1}), \"{0}.{1}\");",
                    name, member
                )
                .unwrap();
            }
            structures += 1;
        } else if let Some(alias) = item.strip_prefix("pub type ") {
            let (name, rust) = alias.split_once(" = ").unwrap();
            writeln!(c, "typedef {};", declare(rust, &format!("rust_{}", name), false)).unwrap();
            writeln!(c, "_Static_assert(SAME(rust_{0}, {0}), \"{0}\");", name).unwrap();
        } else if let Some(constant) = item.strip_prefix("pub const ") {
            let (name, rest) = constant.split_once(": ").unwrap();
            let (rust, value) = rest.split_once(" = ").unwrap();
            if rust == "*mut c_void" {
                continue; // FIBER_CANCELLED, which C does not count as constant
            }
            let value = if value == "i64::MAX" { "INT64_MAX" } else { value };
            let kind = if name.starts_with("FIBERRT_VERSION") { "int".to_string() } else { base(rust) };
            writeln!(c, "_Static_assert({0} == {1} && SAME({0}, ({2})0), \"{0}\");", name, value, kind).unwrap();
            constants += 1;
        } else {
            assert!(item.starts_with("use ") || item == "}" || item.is_empty(), "what is this? {}", item);
        }
    }
    assert!(missing.is_empty(), "the bindings lack {:?}", missing);
    assert!(structures > 20 && constants > 80, "{} structures, {} constants", structures, constants);
    c
}

/// Returns what the compiler complains about; empty if nothing.
fn complaints(c: &str, include: &Path, name: &str) -> String {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, c).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut words = compiler.split_whitespace();
    let result = Command::new(words.next().unwrap())
        .args(words)
        .args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-array-parameter", "-I"])
        .arg(include)
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(result.status.success(), result.stderr.is_empty());
    String::from_utf8_lossy(&result.stderr).into_owned()
}

#[test]
fn every_item_is_as_in_the_header() {
    let include = match env::var_os("FIBERRT_INCLUDE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../include"),
    };
    let header = fs::read_to_string(include.join("fiberrt.h")).expect("fiberrt.h");
    let c = comparison(&header);
    assert_eq!(complaints(&c, &include, "same.c"), "");
    // The comparison notices a wrong number and a wrong kind of parameter, a wrong member and a wrong value.
    for (right, wrong, told) in [
        ("int fiber_event_wait(fiber_event_t *event);", "int fiber_event_wait(void);", "fiber_event_wait"),
        ("int fiber_sleep(int64_t ns);", "int fiber_sleep(int ns);", "fiber_sleep"),
        ("typedef struct { uint64_t id; } rust_fiber_t;", "typedef struct { int64_t id; } rust_fiber_t;", "fiber_t.id"),
        ("FIBER_DEAD == 4", "FIBER_DEAD == 5", "FIBER_DEAD"),
    ] {
        let planted = c.replace(right, wrong);
        assert_ne!(planted, c, "nothing was planted: {}", right);
        assert!(complaints(&planted, &include, "planted.c").contains(told), "nothing was said of {}", wrong);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
// Compiles libfiberrt from its single file, or finds an installed library.

use std::env;
use std::path::{Path, PathBuf};

fn fail(sentence: &str) -> ! {
    eprintln!("fiberrt-sys: {}", sentence);
    std::process::exit(1)
}

fn has(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", feature)).is_some()
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=FIBERRT_AMALGAMATION");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        fail("libfiberrt runs on Linux only");
    }
    if env::var_os("DOCS_RS").is_some() || env::var_os("CARGO_CFG_MIRI").is_some() {
        return; // the documentation needs no library, and miri can call none
    }
    if has("SYSTEM") {
        link_installed();
    } else {
        compile(&amalgamation());
    }
}

#[cfg(feature = "system")]
fn link_installed() {
    let library = match pkg_config::Config::new().atleast_version(env!("CARGO_PKG_VERSION")).probe("fiberrt") {
        Ok(library) => library,
        Err(error) => fail(&format!("the feature `system` needs an installed libfiberrt: {}", error)),
    };
    // pkg-config leaves out the folders that the compiler searches anyway.
    let named = pkg_config::get_variable("fiberrt", "includedir").ok().map(PathBuf::from);
    match library.include_paths.into_iter().chain(named).find(|folder| folder.join("fiberrt.h").exists()) {
        Some(folder) => println!("cargo:include={}", folder.display()),
        None => println!("cargo:warning=there is no fiberrt.h, so DEP_FIBERRT_INCLUDE is not set"),
    }
}

#[cfg(not(feature = "system"))]
fn link_installed() {}

/// Finds the folder with the single file: the one of FIBERRT_AMALGAMATION, the crate's own, or in a checkout the one
/// that `./dev amalgamate` makes.
fn amalgamation() -> PathBuf {
    if let Some(named) = env::var_os("FIBERRT_AMALGAMATION") {
        let folder = PathBuf::from(named);
        if !folder.join("fiberrt.cc").exists() {
            fail(&format!("FIBERRT_AMALGAMATION: there is no fiberrt.cc in {}", folder.display()));
        }
        return folder;
    }
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let found = [here.join("amalgamation"), here.join("../../../build/amalgamation")]
        .into_iter()
        .find(|folder| folder.join("fiberrt.cc").exists());
    match found {
        Some(folder) => folder,
        None => fail(
            "there is no fiberrt.cc: in a checkout run `./dev amalgamate` first, or set FIBERRT_AMALGAMATION, or use \
             the feature `system`",
        ),
    }
}

fn compile(folder: &Path) {
    let mut library = cc::Build::new();
    library.cpp(true).std("c++20").opt_level(2).warnings(false);
    library.define("FIBERRT_PRIVATE", None).include(folder);
    for flag in [
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-threadsafe-statics",
        "-fstack-clash-protection",
        "-fasynchronous-unwind-tables",
    ] {
        library.flag_if_supported(flag);
    }
    let mut libraries = Vec::new();
    // A packed crate contains both libraries, under other names.
    let backends = folder.join("fiberrt_backends.c");
    let bundled = has("URING") && has("EV") && backends.exists();
    if bundled {
        library.define("FIBERRT_BUNDLED", None);
    }
    for (feature, header, name, package) in
        [("URING", "liburing.h", "uring", "liburing-dev"), ("EV", "ev.h", "ev", "libev-dev")]
    {
        if bundled || !has(feature) {
            continue;
        }
        need(header, &feature.to_lowercase(), package);
        library.define(&format!("FIBERRT_WITH_{}", feature), None);
        libraries.push(name);
    }
    for file in ["fiberrt.cc", "fiberrt.h", "fiberrt_switch.S"] {
        println!("cargo:rerun-if-changed={}", folder.join(file).display());
    }
    let mut others = cc::Build::new();
    others.opt_level(2).warnings(false).include(folder).file(folder.join("fiberrt_switch.S"));
    if bundled {
        others.file(backends);
    }
    library.file(folder.join("fiberrt.cc")).objects(others.compile_intermediates());
    library.compile("fiberrt");
    for name in libraries {
        println!("cargo:rustc-link-lib={}", name);
    }
    println!("cargo:include={}", folder.display());
}

/// Fails with one sentence if a header is missing, before the compiler prints pages.
fn need(header: &str, feature: &str, package: &str) {
    let probe = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join(format!("has_{}.c", feature));
    std::fs::write(&probe, format!("#include <{}>\n", header)).unwrap();
    let mut compiler = cc::Build::new();
    compiler.file(&probe).warnings(false).cargo_warnings(false);
    if compiler.try_expand().is_err() {
        fail(&format!(
            "the feature `{0}` needs the header {1}: install it (Debian: {2}), or build without default features and \
             without `{0}`",
            feature, header, package
        ));
    }
}

//! Finds `libaot_runtime.so`: below `AOT_RUNTIME_PREFIX`, else where pkg-config says, else in the
//! folder of the Python wheel.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=AOT_RUNTIME_PREFIX");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let folder = library_folder().unwrap_or_else(|| {
        panic!(
            "libaot_runtime.so was not found. Set AOT_RUNTIME_PREFIX to the folder that the runtime \
             is installed in (with lib/libaot_runtime.so), or install the wheel aot-runtime, or make \
             pkg-config find aot_runtime."
        )
    });
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=aot_runtime");
    // Tests and examples of this crate find it where it is; a program of yours says its own.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    println!("cargo:lib={}", folder.display());
}

fn library_folder() -> Option<PathBuf> {
    let given = env::var_os("AOT_RUNTIME_PREFIX").map(PathBuf::from);
    match given {
        Some(prefix) => below(&prefix),
        None => answer("pkg-config", &["--variable=libdir", "aot_runtime"])
            .filter(|folder| has_library(folder))
            .or_else(|| below(&answer("aot-runtime", &["--prefix"])?)),
    }
}

fn below(prefix: &Path) -> Option<PathBuf> {
    ["lib", "lib64"].iter().map(|name| prefix.join(name)).find(|folder| has_library(folder))
}

fn has_library(folder: &Path) -> bool {
    folder.join("libaot_runtime.so").exists()
}

fn answer(program: &str, arguments: &[&str]) -> Option<PathBuf> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

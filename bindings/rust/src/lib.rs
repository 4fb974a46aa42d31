//! Runs PyTorch models packaged by `aot-package`, without PyTorch, Python or a compiler.
//!
//! ```no_run
//! # fn main() -> aot_runtime::Result<()> {
//! use aot_runtime::{Package, View};
//!
//! let package = Package::open("mlp.pkg")?;
//! let session = package.session()?;
//! let x = vec![0.5_f32; 8 * 64];
//! let outputs = session.run(&mut [View::new(&x, &[8, 64])?])?;
//! println!("{:?}: {:?}", outputs[0].shape(), outputs[0].data::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! [`Package`] and [`Session`] may be shared between threads. Runs of one session follow each other;
//! those of different sessions of one package go on at the same time. What this crate does not wrap
//! is in [`sys`], with [`Package::as_ptr`] and [`Session::as_ptr`].
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

mod element;
mod error;
mod options;
mod package;
mod session;
#[allow(missing_docs)]
#[rustfmt::skip]
pub mod sys;
mod tensor;

pub use element::{DType, Element};
pub use error::{Code, Error, Result};
pub use options::{Cancellation, PackageOptions, RunOptions, SessionOptions, Verify};
pub use package::{Dim, Package, TensorInfo};
pub use session::Session;
pub use tensor::{Tensor, View};

use std::ffi::CStr;
use std::os::raw::c_char;

/// The version of the library in use: "0.1.0".
pub fn runtime_version() -> String {
    // SAFETY: the function takes nothing and gives a static string.
    unsafe { text(sys::aot_runtime_version()) }
}

/// The best instruction set level of this CPU: "x86-64-v4", or "none".
pub fn cpu_isa() -> String {
    // SAFETY: as above.
    unsafe { text(sys::aot_cpu_isa()) }
}

/// A copy of one of the library's strings.
///
/// # Safety
/// `pointer` is NULL or a string that ends with NUL.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

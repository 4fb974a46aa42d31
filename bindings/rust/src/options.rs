//! How packages are opened, sessions made and runs done.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::check;
use crate::{sys, Result};

/// How much of a package is checked beyond what always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Header, manifest, plan; code when it is loaded.
    #[default]
    Default,
    /// Every byte of the files, when it is opened.
    Full,
    /// Weights too, when a session is created.
    Lazy,
}

/// How a package is opened.
#[derive(Clone, Debug, Default)]
pub struct PackageOptions {
    /// What is checked.
    pub verify: Verify,
    /// The file of the weights, where the package does not hold them.
    pub weights: Option<PathBuf>,
    /// Ed25519 public keys (64 hexadecimal digits, or PEM): where there are any, one of them must
    /// have signed the package.
    pub keys: Vec<String>,
    /// Refuses packages that carry custom operators.
    pub no_operator_libraries: bool,
    /// Refuses packages whose kernels do not declare what they touch.
    pub require_proved: bool,
    /// Reads the files into memory, in large pages where the system has them, and maps none.
    pub copy: bool,
}

/// How a session is made.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// "cpu", "cuda" or "cuda:1"; `None` is "cpu".
    pub device: Option<String>,
    /// "x86-64-v3"; `None` is the best that package and CPU both have.
    pub isa: Option<String>,
    /// Threads of a run; 0 is all physical cores that the process may use.
    pub num_threads: i32,
}

/// How one run is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// A run that takes longer fails with `DeadlineExceeded`.
    pub timeout: Option<Duration>,
    /// Ends the run from another thread.
    pub cancellation: Option<&'a Cancellation>,
}

/// Ends runs from elsewhere. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Cancellation(Arc<Handle>);

#[derive(Debug)]
struct Handle(*mut sys::aot_cancellation);

// SAFETY: abi.h: any thread may use it at any time.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Cancellation {
    /// One that ends nothing yet.
    pub fn new() -> Result<Cancellation> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: writes the pointer on success.
        unsafe { check(sys::aot_cancellation_create(&mut pointer))? };
        Ok(Cancellation(Arc::new(Handle(pointer))))
    }

    /// Runs that have it end with `Cancelled`, until it is reset.
    pub fn cancel(&self) {
        // SAFETY: alive as long as `self`.
        unsafe { sys::aot_cancellation_cancel(self.0 .0) }
    }

    /// Lets later runs go on.
    pub fn reset(&self) {
        // SAFETY: as above.
        unsafe { sys::aot_cancellation_reset(self.0 .0) }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::aot_cancellation {
        self.0 .0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned; runs borrow the `Cancellation`, so none is left.
        unsafe { sys::aot_cancellation_free(self.0) }
    }
}

/// A C string that may be absent.
pub(crate) fn c_text(text: Option<&str>) -> Result<Option<CString>> {
    Ok(text.map(CString::new).transpose()?)
}

//! Failures, with the library's own words.

use std::ffi::NulError;
use std::fmt;

use crate::{sys, text};

/// What functions of this crate give.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! codes {
    ($($(#[$note:meta])* $name:ident = $value:ident),* $(,)?) => {
        /// Why a call failed: the codes of `abi.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$note])* $name,)*
            /// A code that this crate does not know, of a newer library.
            Unknown,
        }

        impl Code {
            fn of(code: sys::aot_code) -> Code {
                match code {
                    $(sys::$value => Code::$name,)*
                    _ => Code::Unknown,
                }
            }
        }
    };
}

codes! {
    /// An argument is wrong apart from sizes: a count, a type, a device, an index in the data.
    InvalidArgument = AOT_INVALID_ARGUMENT,
    /// A rank or a size breaks the model's contract.
    ShapeMismatch = AOT_SHAPE_MISMATCH,
    /// A file, an entry, a name or a custom operator is not there.
    NotFound = AOT_NOT_FOUND,
    /// The file is no package, or contradicts itself.
    CorruptPackage = AOT_CORRUPT_PACKAGE,
    /// The package is of a format that this runtime does not read.
    Incompatible = AOT_INCOMPATIBLE,
    /// The package has nothing for this machine, or for what was asked.
    Unavailable = AOT_UNAVAILABLE,
    /// Memory could not be had.
    OutOfMemory = AOT_OUT_OF_MEMORY,
    /// The operating system or a device refuses what should work.
    DeviceError = AOT_DEVICE_ERROR,
    /// The request is legal, but this build cannot do it.
    Unsupported = AOT_UNSUPPORTED,
    /// A bug of the runtime.
    Internal = AOT_INTERNAL,
    /// A custom operator reports that it failed.
    OperatorFailed = AOT_OPERATOR_FAILED,
    /// The run was cancelled.
    Cancelled = AOT_CANCELLED,
    /// The run took longer than it was given.
    DeadlineExceeded = AOT_DEADLINE_EXCEEDED,
    /// More was needed than the limits allow.
    LimitExceeded = AOT_LIMIT_EXCEEDED,
    /// The caller's policy does not allow the package.
    Refused = AOT_REFUSED,
}

/// A failure: what went wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    origin: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), origin: String::new() }
    }

    /// Its kind.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The library's sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The model's source behind the failing step ("model.py:12 aten.add.Tensor"), or "".
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<NulError> for Error {
    fn from(_: NulError) -> Error {
        Error::new(Code::InvalidArgument, "a path or name has a NUL in it")
    }
}

/// What a function of the library has reported; the status is freed.
///
/// # Safety
/// `status` is NULL or a status that the caller owns.
pub(crate) unsafe fn check(status: *mut sys::aot_status) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    // SAFETY: its strings live until it is freed, and are copied before.
    unsafe {
        let error = Error {
            code: Code::of(sys::aot_status_code(status)),
            message: text(sys::aot_status_message(status)),
            origin: text(sys::aot_status_origin(status)),
        };
        sys::aot_status_free(status);
        Err(error)
    }
}

//! Types of elements.

use crate::sys;

/// The type of a tensor's elements, by DLPack's code and bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DType {
    /// A `DLDataTypeCode`: `sys::kDLFloat` and others.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
}

impl DType {
    /// float16, which Rust has no type for: its bytes are given and taken.
    pub const F16: DType = DType { code: sys::kDLFloat as u8, bits: 16 };
    /// bfloat16, of which the same is true.
    pub const BF16: DType = DType { code: sys::kDLBfloat as u8, bits: 16 };

    /// Bytes of one element.
    pub fn size(self) -> usize {
        (usize::from(self.bits) + 7) / 8
    }

    pub(crate) fn of(dtype: sys::DLDataType) -> DType {
        DType { code: dtype.code, bits: dtype.bits }
    }

    pub(crate) fn raw(self) -> sys::DLDataType {
        sys::DLDataType { code: self.code, bits: self.bits, lanes: 1 }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors may hold.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// How DLPack names it.
    const DTYPE: DType;

    /// Whether every byte pattern in `bytes` is a value of the type.
    #[doc(hidden)]
    fn all_valid(_bytes: &[u8]) -> bool {
        true
    }
}

macro_rules! elements {
    ($($kind:ty: $code:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $kind {}
            impl Element for $kind {
                const DTYPE: DType =
                    DType { code: sys::$code as u8, bits: 8 * std::mem::size_of::<$kind>() as u8 };
            }
        )*
    };
}

elements! {
    f32: kDLFloat, f64: kDLFloat,
    i8: kDLInt, i16: kDLInt, i32: kDLInt, i64: kDLInt,
    u8: kDLUInt, u16: kDLUInt, u32: kDLUInt, u64: kDLUInt,
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType { code: sys::kDLBool as u8, bits: 8 };

    fn all_valid(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte <= 1)
    }
}

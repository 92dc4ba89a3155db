//! Enums whose variants are also the names of counters.

/// Defines a `#[repr(u8)]` enum of unit variants with `ALL`, `NAMES` and `name()`: an error and its drop counter in one.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $enum:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[repr(u8)]
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $enum { $($(#[$variant_meta])* $variant,)+ }

        impl $enum {
            /// Every variant, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The counters' names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// The name of this variant's counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

pub(crate) use named_enum;

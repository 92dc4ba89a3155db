//! Random linear network coding over a generation of equal blocks.

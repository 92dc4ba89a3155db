//! Arithmetic in finite fields of characteristic 2.

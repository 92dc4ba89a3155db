//! Lowers Heddle's rules to what a NIC can do, and reports what it cannot.

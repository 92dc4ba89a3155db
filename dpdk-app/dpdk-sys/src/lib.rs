//! Raw bindings to the system's libdpdk.

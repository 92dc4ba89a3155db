//! Names the library as programs that link it look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheddle_dtp.so.0");
}

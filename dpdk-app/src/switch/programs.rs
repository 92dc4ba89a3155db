//! What runs the programs by which rules match.

use dpdk::Compiler;
use heddle_host::config::ProgramRunner;
use heddle_host::program::{Backend, Interpreter, Registry};

/// The programs of a switch with so many workers, none yet.
pub fn registry(runner: ProgramRunner, workers: usize) -> Registry {
    let interpreter: Box<dyn Backend> = Box::new(Interpreter);
    let backends = match runner {
        // A program that cannot be compiled is interpreted.
        ProgramRunner::Jit => vec![Box::new(Compiler), interpreter],
        ProgramRunner::Interpret => vec![interpreter],
    };
    Registry::new(workers, backends)
}

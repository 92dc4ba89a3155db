//! Telemetry commands: closures that answer on DPDK's telemetry socket.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, RwLock};

use dpdk_sys::rte_tel_data;

use crate::eal::Eal;
use crate::error::Error;

/// A value in a telemetry answer. DPDK's JSON has no signed 64-bit and no floating-point number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Unsigned(u64),
    /// A text of up to 127 octets; a longer one is cut.
    Text(String),
    /// A dictionary.
    Dict(Dict),
}

/// Names and values in an order; 256 at most. DPDK takes letters, digits, `_` and `/` in a name, at most
/// 127 of them: any other character is answered as `_`.
pub type Dict = Vec<(String, Value)>;

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Unsigned(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Dict> for Value {
    fn from(dict: Dict) -> Self {
        Self::Dict(dict)
    }
}

type Answer = Arc<dyn Fn(&str) -> Dict + Send + Sync>;

/// DPDK gives a callback the command's name and nothing else of the caller's, so answers are found by name.
static ANSWERS: RwLock<BTreeMap<String, Answer>> = RwLock::new(BTreeMap::new());

/// Has `answer` called for `command` (as `/name/stats`), with the parameters after the first comma. It runs
/// on a thread of DPDK's. A command cannot be withdrawn; registering it again replaces its answer.
///
/// # Errors
/// The name does not begin with `/` or has 56 octets or more, `help` has 64 or more, or there are too many commands.
pub fn register_command(
    _eal: &Eal,
    command: &str,
    help: &str,
    answer: impl Fn(&str) -> Dict + Send + Sync + 'static,
) -> Result<(), Error> {
    let what = format!("the telemetry command '{command}' cannot be registered");
    let (Ok(c_command), Ok(c_help)) = (CString::new(command), CString::new(help)) else {
        return Err(Error::refused(format!("{what}: a NUL octet")));
    };
    let mut answers = match ANSWERS.write() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    };
    if answers.insert(command.to_owned(), Arc::new(answer)).is_some() {
        return Ok(());
    }
    // SAFETY: EAL runs, both strings are NUL-terminated and copied, and `respond` is a function of the
    // type that DPDK calls.
    let status = unsafe {
        dpdk_sys::rte_telemetry_register_cmd(c_command.as_ptr(), Some(respond), c_help.as_ptr())
    };
    if status < 0 {
        answers.remove(command);
        return Err(Error::call(what, status, ""));
    }
    Ok(())
}

/// What DPDK calls for every command that is registered here.
unsafe extern "C" fn respond(
    command: *const c_char,
    parameters: *const c_char,
    data: *mut rte_tel_data,
) -> i32 {
    if command.is_null() || data.is_null() {
        return -1;
    }
    // SAFETY: DPDK passes NUL-terminated strings that live through the call; parameters may be null.
    let (command, parameters) = unsafe {
        let command = CStr::from_ptr(command).to_string_lossy();
        let parameters = if parameters.is_null() {
            std::borrow::Cow::Borrowed("")
        } else {
            CStr::from_ptr(parameters).to_string_lossy()
        };
        (command, parameters)
    };
    let answer = match ANSWERS.read() {
        Ok(answers) => answers.get(command.as_ref()).cloned(),
        Err(_) => None,
    };
    let Some(answer) = answer else { return -1 };
    // A panic must not unwind into C.
    let Ok(dict) = catch_unwind(AssertUnwindSafe(|| answer(&parameters))) else { return -1 };
    // SAFETY: DPDK owns `data` and lets the callback fill it.
    unsafe { fill(data, &dict) }
}

/// Writes `dict` into `data`; a negative number is DPDK's refusal.
///
/// # Safety
/// `data` points to telemetry data that this thread may write.
unsafe fn fill(data: *mut rte_tel_data, dict: &Dict) -> i32 {
    // SAFETY: by the caller's word.
    let mut status = unsafe { dpdk_sys::rte_tel_data_start_dict(data) };
    for (name, value) in dict {
        if status < 0 {
            return status;
        }
        let name = c_string(&plain_name(name));
        status = match value {
            // SAFETY: `data` is a dictionary now, and the name is NUL-terminated and copied.
            Value::Unsigned(number) => unsafe {
                dpdk_sys::rte_tel_data_add_dict_u64(data, name.as_ptr(), *number)
            },
            Value::Text(text) => {
                let text = c_string(cut(text, dpdk_sys::RTE_TEL_MAX_STRING_LEN as usize - 1));
                // SAFETY: as above, for both strings.
                unsafe {
                    dpdk_sys::rte_tel_data_add_dict_string(data, name.as_ptr(), text.as_ptr())
                }
            }
            // SAFETY: as above; the function takes care of the inner data.
            Value::Dict(inner) => unsafe { add_inner(data, &name, inner) },
        };
    }
    status
}

/// Adds `inner` to the dictionary `data`.
///
/// # Safety
/// As for [`fill`], and `data` is a dictionary.
unsafe fn add_inner(data: *mut rte_tel_data, name: &CStr, inner: &Dict) -> i32 {
    // SAFETY: the container is new and ours until it is added. DPDK frees it after it has written the
    // answer, because `keep` is 0; when it is refused it is freed here instead.
    unsafe {
        let container = dpdk_sys::rte_tel_data_alloc();
        if container.is_null() {
            return -libc::ENOMEM;
        }
        let mut status = fill(container, inner);
        if status >= 0 {
            status = dpdk_sys::rte_tel_data_add_dict_container(data, name.as_ptr(), container, 0);
        }
        if status < 0 {
            dpdk_sys::rte_tel_data_free(container);
        }
        status
    }
}

/// A name with nothing in it but what DPDK takes.
fn plain_name(name: &str) -> String {
    name.chars()
        .take(dpdk_sys::RTE_TEL_MAX_STRING_LEN as usize - 1)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '/') { c } else { '_' })
        .collect()
}

/// The longest beginning of `text` with at most `octets`.
fn cut(text: &str, octets: usize) -> &str {
    let mut end = octets.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` up to its first NUL octet.
fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_made_to_fit() {
        assert_eq!(plain_name("h-1.x_/Z"), "h_1_x_/Z");
        assert_eq!(plain_name(&"a".repeat(300)).len(), 127);
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(c_string("a\0b").to_str(), Ok("a"));
    }
}

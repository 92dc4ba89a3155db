//! Why a message is refused: type and code of an OFPT_ERROR (OpenFlow 1.3.5, 7.4.4).

use std::fmt;

/// Type and code of an error message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct Refusal {
    /// The type, OFPET_*.
    pub error_type: u16,
    /// The code, whose meaning depends on the type.
    pub code: u16,
}

macro_rules! refusals {
    ($($(#[$meta:meta])* $name:ident = $error_type:literal, $code:literal, $text:literal;)+) => {
        impl Refusal {
            $($(#[$meta])* #[doc = concat!("`", $text, "`.")]
            pub const $name: Self = Self { error_type: $error_type, code: $code };)+

            /// The names of type and code as the specification writes them, for those that are sent here.
            pub const fn name(self) -> Option<&'static str> {
                match (self.error_type, self.code) {
                    $(($error_type, $code) => Some($text),)+
                    _ => None,
                }
            }
        }
    };
}

refusals! {
    INCOMPATIBLE = 0, 0, "HELLO_FAILED/INCOMPATIBLE";
    BAD_VERSION = 1, 0, "BAD_REQUEST/BAD_VERSION";
    BAD_TYPE = 1, 1, "BAD_REQUEST/BAD_TYPE";
    BAD_MULTIPART = 1, 2, "BAD_REQUEST/BAD_MULTIPART";
    BAD_EXPERIMENTER = 1, 3, "BAD_REQUEST/BAD_EXPERIMENTER";
    BAD_EXPERIMENTER_TYPE = 1, 4, "BAD_REQUEST/BAD_EXP_TYPE";
    BAD_LEN = 1, 6, "BAD_REQUEST/BAD_LEN";
    BUFFER_UNKNOWN = 1, 8, "BAD_REQUEST/BUFFER_UNKNOWN";
    IS_SLAVE = 1, 10, "BAD_REQUEST/IS_SLAVE";
    BAD_PORT = 1, 11, "BAD_REQUEST/BAD_PORT";
    ACTION_TYPE = 2, 0, "BAD_ACTION/BAD_TYPE";
    ACTION_LEN = 2, 1, "BAD_ACTION/BAD_LEN";
    ACTION_EXPERIMENTER = 2, 2, "BAD_ACTION/BAD_EXPERIMENTER";
    ACTION_OUT_PORT = 2, 4, "BAD_ACTION/BAD_OUT_PORT";
    ACTION_TOO_MANY = 2, 7, "BAD_ACTION/TOO_MANY";
    ACTION_OUT_GROUP = 2, 9, "BAD_ACTION/BAD_OUT_GROUP";
    ACTION_SET_TYPE = 2, 13, "BAD_ACTION/BAD_SET_TYPE";
    ACTION_SET_LEN = 2, 14, "BAD_ACTION/BAD_SET_LEN";
    ACTION_SET_ARGUMENT = 2, 15, "BAD_ACTION/BAD_SET_ARGUMENT";
    INSTRUCTION_UNKNOWN = 3, 0, "BAD_INSTRUCTION/UNKNOWN_INST";
    INSTRUCTION_UNSUPPORTED = 3, 1, "BAD_INSTRUCTION/UNSUP_INST";
    INSTRUCTION_TABLE = 3, 2, "BAD_INSTRUCTION/BAD_TABLE_ID";
    INSTRUCTION_EXPERIMENTER = 3, 5, "BAD_INSTRUCTION/BAD_EXPERIMENTER";
    INSTRUCTION_LEN = 3, 7, "BAD_INSTRUCTION/BAD_LEN";
    MATCH_TYPE = 4, 0, "BAD_MATCH/BAD_TYPE";
    MATCH_LEN = 4, 1, "BAD_MATCH/BAD_LEN";
    MATCH_WILDCARDS = 4, 5, "BAD_MATCH/BAD_WILDCARDS";
    MATCH_FIELD = 4, 6, "BAD_MATCH/BAD_FIELD";
    MATCH_VALUE = 4, 7, "BAD_MATCH/BAD_VALUE";
    MATCH_MASK = 4, 8, "BAD_MATCH/BAD_MASK";
    MATCH_PREREQUISITE = 4, 9, "BAD_MATCH/BAD_PREREQ";
    MATCH_DUPLICATE = 4, 10, "BAD_MATCH/DUP_FIELD";
    FLOW_TABLE_FULL = 5, 1, "FLOW_MOD_FAILED/TABLE_FULL";
    FLOW_TABLE = 5, 2, "FLOW_MOD_FAILED/BAD_TABLE_ID";
    FLOW_OVERLAP = 5, 3, "FLOW_MOD_FAILED/OVERLAP";
    FLOW_COMMAND = 5, 6, "FLOW_MOD_FAILED/BAD_COMMAND";
    FLOW_FLAGS = 5, 7, "FLOW_MOD_FAILED/BAD_FLAGS";
    GROUP_EXISTS = 6, 0, "GROUP_MOD_FAILED/GROUP_EXISTS";
    GROUP_INVALID = 6, 1, "GROUP_MOD_FAILED/INVALID_GROUP";
    GROUPS_FULL = 6, 3, "GROUP_MOD_FAILED/OUT_OF_GROUPS";
    BUCKETS_FULL = 6, 4, "GROUP_MOD_FAILED/OUT_OF_BUCKETS";
    GROUP_CHAINING = 6, 5, "GROUP_MOD_FAILED/CHAINING_UNSUPPORTED";
    GROUP_WATCH_UNSUPPORTED = 6, 6, "GROUP_MOD_FAILED/WATCH_UNSUPPORTED";
    GROUP_UNKNOWN = 6, 8, "GROUP_MOD_FAILED/UNKNOWN_GROUP";
    GROUP_TYPE = 6, 10, "GROUP_MOD_FAILED/BAD_TYPE";
    GROUP_COMMAND = 6, 11, "GROUP_MOD_FAILED/BAD_COMMAND";
    GROUP_BUCKET = 6, 12, "GROUP_MOD_FAILED/BAD_BUCKET";
    GROUP_BAD_WATCH = 6, 13, "GROUP_MOD_FAILED/BAD_WATCH";
    CONFIG_FLAGS = 10, 0, "SWITCH_CONFIG_FAILED/BAD_FLAGS";
    ROLE_STALE = 11, 0, "ROLE_REQUEST_FAILED/STALE";
    ROLE = 11, 2, "ROLE_REQUEST_FAILED/BAD_ROLE";
    TABLE_FEATURES_PERMISSION = 13, 5, "TABLE_FEATURES_FAILED/EPERM";
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error type {} code {}", self.error_type, self.code),
        }
    }
}

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
    ($($(#[$meta:meta])* $name:ident = $error_type:literal, $code:literal, $text:literal, $meaning:literal;)+) => {
        impl Refusal {
            $($(#[$meta])* #[doc = concat!("`", $text, "`: ", $meaning, ".")]
            pub const $name: Self = Self { error_type: $error_type, code: $code };)+

            /// The names of type and code as the specification writes them.
            pub const fn name(self) -> Option<&'static str> {
                match (self.error_type, self.code) {
                    $(($error_type, $code) => Some($text),)+
                    _ => None,
                }
            }

            /// What the other side says by it, to go on with after "because".
            pub const fn meaning(self) -> Option<&'static str> {
                match (self.error_type, self.code) {
                    $(($error_type, $code) => Some($meaning),)+
                    _ => None,
                }
            }
        }
    };
}

refusals! {
    INCOMPATIBLE = 0, 0, "HELLO_FAILED/INCOMPATIBLE", "it speaks no version of OpenFlow in common";
    HELLO_EPERM = 0, 1, "HELLO_FAILED/EPERM", "it does not want this connection";
    BAD_VERSION = 1, 0, "BAD_REQUEST/BAD_VERSION", "the message is of another version than the one agreed on";
    BAD_TYPE = 1, 1, "BAD_REQUEST/BAD_TYPE", "it does not know this type of message";
    BAD_MULTIPART = 1, 2, "BAD_REQUEST/BAD_MULTIPART", "it does not know this multipart request";
    BAD_EXPERIMENTER = 1, 3, "BAD_REQUEST/BAD_EXPERIMENTER", "it does not know this experimenter";
    BAD_EXPERIMENTER_TYPE = 1, 4, "BAD_REQUEST/BAD_EXP_TYPE", "it does not know this message of the experimenter";
    REQUEST_EPERM = 1, 5, "BAD_REQUEST/EPERM", "it does not permit that";
    BAD_LEN = 1, 6, "BAD_REQUEST/BAD_LEN", "the message's length does not fit its content";
    REQUEST_BUFFER_EMPTY = 1, 7, "BAD_REQUEST/BUFFER_EMPTY", "the buffer is empty";
    BUFFER_UNKNOWN = 1, 8, "BAD_REQUEST/BUFFER_UNKNOWN", "it has no such buffer";
    REQUEST_TABLE_ID = 1, 9, "BAD_REQUEST/BAD_TABLE_ID", "it has no such table";
    IS_SLAVE = 1, 10, "BAD_REQUEST/IS_SLAVE", "this connection has the role slave, which only looks";
    BAD_PORT = 1, 11, "BAD_REQUEST/BAD_PORT", "it has no such port";
    REQUEST_PACKET = 1, 12, "BAD_REQUEST/BAD_PACKET", "the packet is faulty";
    REQUEST_MULTIPART_BUFFER_OVERFLOW = 1, 13, "BAD_REQUEST/MULTIPART_BUFFER_OVERFLOW", "the request has more parts than it can hold";
    ACTION_TYPE = 2, 0, "BAD_ACTION/BAD_TYPE", "it does not know an action";
    ACTION_LEN = 2, 1, "BAD_ACTION/BAD_LEN", "an action's length does not fit it";
    ACTION_EXPERIMENTER = 2, 2, "BAD_ACTION/BAD_EXPERIMENTER", "it does not know an action's experimenter";
    ACTION_EXP_TYPE = 2, 3, "BAD_ACTION/BAD_EXP_TYPE", "it does not know an experimenter's action";
    ACTION_OUT_PORT = 2, 4, "BAD_ACTION/BAD_OUT_PORT", "an action sends to a port that is not there";
    ACTION_ARGUMENT = 2, 5, "BAD_ACTION/BAD_ARGUMENT", "an action's argument is of no use";
    ACTION_EPERM = 2, 6, "BAD_ACTION/EPERM", "it does not permit an action";
    ACTION_TOO_MANY = 2, 7, "BAD_ACTION/TOO_MANY", "there are more actions than it can carry out";
    ACTION_QUEUE = 2, 8, "BAD_ACTION/BAD_QUEUE", "it has no such queue";
    ACTION_OUT_GROUP = 2, 9, "BAD_ACTION/BAD_OUT_GROUP", "an action names a group that is not there";
    ACTION_MATCH_INCONSISTENT = 2, 10, "BAD_ACTION/MATCH_INCONSISTENT", "an action does not fit what the flow matches";
    ACTION_UNSUPPORTED_ORDER = 2, 11, "BAD_ACTION/UNSUPPORTED_ORDER", "it cannot carry out the actions in this order";
    ACTION_TAG = 2, 12, "BAD_ACTION/BAD_TAG", "an action pushes a tag that it does not know";
    ACTION_SET_TYPE = 2, 13, "BAD_ACTION/BAD_SET_TYPE", "an action sets a field that cannot be set";
    ACTION_SET_LEN = 2, 14, "BAD_ACTION/BAD_SET_LEN", "an action sets a field to a value of another length";
    ACTION_SET_ARGUMENT = 2, 15, "BAD_ACTION/BAD_SET_ARGUMENT", "an action sets a field to a value that it cannot have";
    INSTRUCTION_UNKNOWN = 3, 0, "BAD_INSTRUCTION/UNKNOWN_INST", "it does not know an instruction";
    INSTRUCTION_UNSUPPORTED = 3, 1, "BAD_INSTRUCTION/UNSUP_INST", "it does not support an instruction";
    INSTRUCTION_TABLE = 3, 2, "BAD_INSTRUCTION/BAD_TABLE_ID", "an instruction goes to a table that is not there or not a later one";
    INSTRUCTION_UNSUP_METADATA = 3, 3, "BAD_INSTRUCTION/UNSUP_METADATA", "it cannot write this metadata";
    INSTRUCTION_UNSUP_METADATA_MASK = 3, 4, "BAD_INSTRUCTION/UNSUP_METADATA_MASK", "it cannot write metadata under this mask";
    INSTRUCTION_EXPERIMENTER = 3, 5, "BAD_INSTRUCTION/BAD_EXPERIMENTER", "it does not know an instruction's experimenter";
    INSTRUCTION_EXP_TYPE = 3, 6, "BAD_INSTRUCTION/BAD_EXP_TYPE", "it does not know an experimenter's instruction";
    INSTRUCTION_LEN = 3, 7, "BAD_INSTRUCTION/BAD_LEN", "an instruction's length does not fit it";
    INSTRUCTION_EPERM = 3, 8, "BAD_INSTRUCTION/EPERM", "it does not permit an instruction";
    MATCH_TYPE = 4, 0, "BAD_MATCH/BAD_TYPE", "it does not know this type of match";
    MATCH_LEN = 4, 1, "BAD_MATCH/BAD_LEN", "the match's length does not fit its fields";
    MATCH_TAG = 4, 2, "BAD_MATCH/BAD_TAG", "it does not know a tag of the match";
    MATCH_DL_ADDR_MASK = 4, 3, "BAD_MATCH/BAD_DL_ADDR_MASK", "it cannot mask an Ethernet address so";
    MATCH_NW_ADDR_MASK = 4, 4, "BAD_MATCH/BAD_NW_ADDR_MASK", "it cannot mask a network address so";
    MATCH_WILDCARDS = 4, 5, "BAD_MATCH/BAD_WILDCARDS", "a value has bits where its mask has none";
    MATCH_FIELD = 4, 6, "BAD_MATCH/BAD_FIELD", "it does not know or support a field of the match";
    MATCH_VALUE = 4, 7, "BAD_MATCH/BAD_VALUE", "a field of the match has a value that it cannot have";
    MATCH_MASK = 4, 8, "BAD_MATCH/BAD_MASK", "a field of the match cannot be masked so";
    MATCH_PREREQUISITE = 4, 9, "BAD_MATCH/BAD_PREREQ", "a field of the match lacks another that gives it meaning";
    MATCH_DUPLICATE = 4, 10, "BAD_MATCH/DUP_FIELD", "a field is in the match twice";
    MATCH_EPERM = 4, 11, "BAD_MATCH/EPERM", "it does not permit this match";
    FLOW_UNKNOWN = 5, 0, "FLOW_MOD_FAILED/UNKNOWN", "it does not say why";
    FLOW_TABLE_FULL = 5, 1, "FLOW_MOD_FAILED/TABLE_FULL", "it has no room for a further flow";
    FLOW_TABLE = 5, 2, "FLOW_MOD_FAILED/BAD_TABLE_ID", "it has no such table";
    FLOW_OVERLAP = 5, 3, "FLOW_MOD_FAILED/OVERLAP", "the flow overlaps another of its priority";
    FLOW_EPERM = 5, 4, "FLOW_MOD_FAILED/EPERM", "it does not permit that";
    FLOW_TIMEOUT = 5, 5, "FLOW_MOD_FAILED/BAD_TIMEOUT", "it does not support these time-outs";
    FLOW_COMMAND = 5, 6, "FLOW_MOD_FAILED/BAD_COMMAND", "it does not know the command";
    FLOW_FLAGS = 5, 7, "FLOW_MOD_FAILED/BAD_FLAGS", "it does not support these flags";
    GROUP_EXISTS = 6, 0, "GROUP_MOD_FAILED/GROUP_EXISTS", "the group is there already";
    GROUP_INVALID = 6, 1, "GROUP_MOD_FAILED/INVALID_GROUP", "the group's number or definition is of no use";
    GROUP_WEIGHT_UNSUPPORTED = 6, 2, "GROUP_MOD_FAILED/WEIGHT_UNSUPPORTED", "it does not support weights";
    GROUPS_FULL = 6, 3, "GROUP_MOD_FAILED/OUT_OF_GROUPS", "it has no room for a further group";
    BUCKETS_FULL = 6, 4, "GROUP_MOD_FAILED/OUT_OF_BUCKETS", "the group has more buckets than it can hold";
    GROUP_CHAINING = 6, 5, "GROUP_MOD_FAILED/CHAINING_UNSUPPORTED", "it does not support groups that lead to groups";
    GROUP_WATCH_UNSUPPORTED = 6, 6, "GROUP_MOD_FAILED/WATCH_UNSUPPORTED", "it cannot watch what a bucket asks for";
    GROUP_LOOP = 6, 7, "GROUP_MOD_FAILED/LOOP", "the groups would lead around in a circle";
    GROUP_UNKNOWN = 6, 8, "GROUP_MOD_FAILED/UNKNOWN_GROUP", "the group is not there";
    GROUP_CHAINED_GROUP = 6, 9, "GROUP_MOD_FAILED/CHAINED_GROUP", "another group leads to this one";
    GROUP_TYPE = 6, 10, "GROUP_MOD_FAILED/BAD_TYPE", "it does not know this type of group";
    GROUP_COMMAND = 6, 11, "GROUP_MOD_FAILED/BAD_COMMAND", "it does not know the command";
    GROUP_BUCKET = 6, 12, "GROUP_MOD_FAILED/BAD_BUCKET", "a bucket is faulty";
    GROUP_BAD_WATCH = 6, 13, "GROUP_MOD_FAILED/BAD_WATCH", "a bucket watches a port or group that is of no use";
    GROUP_EPERM = 6, 14, "GROUP_MOD_FAILED/EPERM", "it does not permit that";
    PORT_PORT = 7, 0, "PORT_MOD_FAILED/BAD_PORT", "it has no such port";
    PORT_HW_ADDR = 7, 1, "PORT_MOD_FAILED/BAD_HW_ADDR", "the Ethernet address is not the port's";
    PORT_CONFIG = 7, 2, "PORT_MOD_FAILED/BAD_CONFIG", "it cannot set up the port so";
    PORT_ADVERTISE = 7, 3, "PORT_MOD_FAILED/BAD_ADVERTISE", "the port cannot advertise that";
    PORT_EPERM = 7, 4, "PORT_MOD_FAILED/EPERM", "it does not permit that";
    TABLE_TABLE = 8, 0, "TABLE_MOD_FAILED/BAD_TABLE", "it has no such table";
    TABLE_CONFIG = 8, 1, "TABLE_MOD_FAILED/BAD_CONFIG", "it cannot set up the table so";
    TABLE_EPERM = 8, 2, "TABLE_MOD_FAILED/EPERM", "it does not permit that";
    QUEUE_PORT = 9, 0, "QUEUE_OP_FAILED/BAD_PORT", "it has no such port";
    QUEUE_QUEUE = 9, 1, "QUEUE_OP_FAILED/BAD_QUEUE", "it has no such queue";
    QUEUE_EPERM = 9, 2, "QUEUE_OP_FAILED/EPERM", "it does not permit that";
    CONFIG_FLAGS = 10, 0, "SWITCH_CONFIG_FAILED/BAD_FLAGS", "it does not know these flags";
    CONFIG_LEN = 10, 1, "SWITCH_CONFIG_FAILED/BAD_LEN", "it cannot send so many octets";
    CONFIG_EPERM = 10, 2, "SWITCH_CONFIG_FAILED/EPERM", "it does not permit that";
    ROLE_STALE = 11, 0, "ROLE_REQUEST_FAILED/STALE", "the generation is older than one that it has seen";
    ROLE_UNSUP = 11, 1, "ROLE_REQUEST_FAILED/UNSUP", "it does not change roles";
    ROLE = 11, 2, "ROLE_REQUEST_FAILED/BAD_ROLE", "it does not know this role";
    METER_UNKNOWN = 12, 0, "METER_MOD_FAILED/UNKNOWN", "it does not say why";
    METER_METER_EXISTS = 12, 1, "METER_MOD_FAILED/METER_EXISTS", "the meter is there already";
    METER_INVALID_METER = 12, 2, "METER_MOD_FAILED/INVALID_METER", "the meter's number or definition is of no use";
    METER_UNKNOWN_METER = 12, 3, "METER_MOD_FAILED/UNKNOWN_METER", "the meter is not there";
    METER_COMMAND = 12, 4, "METER_MOD_FAILED/BAD_COMMAND", "it does not know the command";
    METER_FLAGS = 12, 5, "METER_MOD_FAILED/BAD_FLAGS", "it does not support these flags";
    METER_RATE = 12, 6, "METER_MOD_FAILED/BAD_RATE", "it does not support this rate";
    METER_BURST = 12, 7, "METER_MOD_FAILED/BAD_BURST", "it does not support this burst size";
    METER_BAND = 12, 8, "METER_MOD_FAILED/BAD_BAND", "it does not support this band";
    METER_BAND_VALUE = 12, 9, "METER_MOD_FAILED/BAD_BAND_VALUE", "it does not support a value of the band";
    METER_OUT_OF_METERS = 12, 10, "METER_MOD_FAILED/OUT_OF_METERS", "it has no room for a further meter";
    METER_OUT_OF_BANDS = 12, 11, "METER_MOD_FAILED/OUT_OF_BANDS", "the meter has more bands than it can hold";
    TABLE_FEATURES_TABLE = 13, 0, "TABLE_FEATURES_FAILED/BAD_TABLE", "it has no such table";
    TABLE_FEATURES_METADATA = 13, 1, "TABLE_FEATURES_FAILED/BAD_METADATA", "it cannot mask metadata so";
    TABLE_FEATURES_TYPE = 13, 2, "TABLE_FEATURES_FAILED/BAD_TYPE", "it does not know a property";
    TABLE_FEATURES_LEN = 13, 3, "TABLE_FEATURES_FAILED/BAD_LEN", "a property's length does not fit it";
    TABLE_FEATURES_ARGUMENT = 13, 4, "TABLE_FEATURES_FAILED/BAD_ARGUMENT", "a property has a value that it does not support";
    TABLE_FEATURES_PERMISSION = 13, 5, "TABLE_FEATURES_FAILED/EPERM", "it does not let its tables be changed";
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.error_type == u16::MAX => write!(f, "EXPERIMENTER/{}", self.code),
            None => write!(f, "error type {} code {}", self.error_type, self.code),
        }
    }
}

//! Runs the commands in `tests/cmd` and compares what they print.

#[test]
fn the_commands_print_what_the_examples_show() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

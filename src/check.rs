pub fn picture(_plan: &crate::plan::Plan, _input: &crate::cli::Input) -> String {
    String::new()
}

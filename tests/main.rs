#[test]
fn a() {}
mod engines;

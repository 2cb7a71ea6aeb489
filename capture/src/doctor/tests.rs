use super::*;

fn check(name: &'static str, status: Status, required: bool) -> Check {
    Check {
        topic: "Kernel",
        name,
        status,
        found: "found".into(),
        required,
        instead: Some("something else"),
        fix: (status != Status::Ok).then(|| "do something".into()),
    }
}

#[test]
fn only_a_required_failure_stands_in_the_way() {
    let report = |checks: Vec<Check>| Report { checks };
    assert!(report(vec![check("a", Status::Ok, true)]).can_record());
    assert!(report(vec![check("a", Status::Refused, false)]).can_record());
    assert!(report(vec![check("a", Status::Unknown, true)]).can_record());
    assert!(!report(vec![check("a", Status::Missing, true)]).can_record());
    assert!(!report(vec![check("a", Status::Refused, true)]).can_record());
}

#[test]
fn the_text_tells_what_follows_from_a_failure() {
    let report = Report {
        checks: vec![
            check("present", Status::Ok, true),
            check("absent", Status::Missing, true),
        ],
    };
    assert_eq!(
        report.to_string(),
        "\
Kernel
  ok       present                          found
  missing  absent                           found
           needed: nothing can be recorded without it
           instead: something else
           to change it: do something

memtrack cannot record on this machine:
  missing: absent (found); to change it: do something
"
    );
}

#[test]
fn examining_ends_and_agrees_with_itself() {
    let report = examine();
    println!("{report}");
    assert_eq!(report.can_record(), bpf_permitted().is_ok());
    let names: std::collections::HashSet<_> =
        report.checks.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), report.checks.len());
    for check in &report.checks {
        assert!(!check.found.is_empty(), "{}", check.name);
        assert!(check.status != Status::Ok || check.fix.is_none());
    }
}

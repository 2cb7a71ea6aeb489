//! Numbers for people: the one place that formats them.
//!
//! Bytes are binary units with three significant digits, counts have
//! thousands separators, times have the unit that fits.

use num_format::{Locale, ToFormattedString};

/// `1.23 KiB`: three significant digits; below 1 KiB exact.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        // 1023.5 would be shown as 1024.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// `1,204,331`.
#[must_use]
pub fn count(count: u64) -> String {
    count.to_formatted_string(&Locale::en)
}

/// `1 block`, `1,204 blocks`.
#[must_use]
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `34.2 %` of a whole. Something that is not nothing is never shown as 0.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let percent = 100.0 * part as f64 / whole as f64;
    if percent < 0.05 {
        "<0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// `3.21 s`, `45.0 ms`, `2 min 5 s`, from nanoseconds.
#[must_use]
pub fn duration(ns: u64) -> String {
    const NS_PER_S: u64 = 1_000_000_000;
    let seconds = ns / NS_PER_S;
    match ns {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three_digits(ns as f64 / 1e3)),
        1_000_000..NS_PER_S => format!("{} ms", three_digits(ns as f64 / 1e6)),
        _ if seconds < 100 => format!("{} s", three_digits(ns as f64 / 1e9)),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", count(seconds / 3600), seconds / 60 % 60),
    }
}

/// `2026-11-29T19:17:22Z`, from nanoseconds since 1970-01-01 UTC.
#[must_use]
pub fn wall_time(ns: u64) -> String {
    let since_epoch = std::time::Duration::from_nanos(ns);
    // 2^64 ns end in the year 2554, which every platform's clock can hold.
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since_epoch).to_string()
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_229, "9.99 KiB"),
            (10_239, "10.0 KiB"),
            (102_300, "99.9 KiB"),
            (1_047_000, "1022 KiB"),
            (1_048_575, "1.00 MiB"),
            (47_312_000, "45.1 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_204_331), "1,204,331");
        assert_eq!(counted(1, "block", "blocks"), "1 block");
        assert_eq!(counted(0, "block", "blocks"), "0 blocks");
    }

    #[test]
    fn a_small_share_is_not_shown_as_nothing() {
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 0), "0 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(u64::MAX, u64::MAX), "100.0 %");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0 s"),
            (999, "999 ns"),
            (1_500, "1.50 us"),
            (45_000_000, "45.0 ms"),
            (3_210_000_000, "3.21 s"),
            (125_000_000_000, "2 min 5 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn every_wall_time_can_be_shown() {
        assert_eq!(wall_time(1_795_979_842_000_000_000), "2026-11-29T19:17:22Z");
        assert!(wall_time(u64::MAX).starts_with("2554-"));
    }
}

//! The values of options: durations, booleans, exit codes and their map. Text in, a value or a reason out.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

/// The longest duration that may be asked for. It keeps all arithmetic on instants far from overflow.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// `30` (seconds), `500ms`, `1.5s`, `2m`, `1h`; at most 24 hours.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err("not a duration".into()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err("not a duration".into());
    }
    // Digit by digit, so that nothing is rounded: each decimal place is worth a tenth of the one before.
    let mut place = unit;
    let fraction = fraction.bytes().map(|digit| {
        place /= 10;
        place * u32::from(digit - b'0')
    });
    let fraction = fraction.sum::<Duration>();
    match whole.parse().ok().and_then(|whole| unit.checked_mul(whole)).map(|whole| whole.saturating_add(fraction)) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => Err("longer than 24h".into()),
    }
}

/// What was configured: seconds with as many decimals as it takes, three at most: `28s`, `0.25s`.
pub fn seconds(duration: Duration) -> String {
    let text = format!("{}.{:03}", duration.as_secs(), duration.subsec_millis());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// What was measured: seconds and tenths, rounded: `11.2s`. In integers, which spares us all of the floating point.
pub fn tenths(duration: Duration) -> String {
    let tenths = milliseconds(duration).saturating_add(50) / 100;
    format!("{}.{}s", tenths / 10, tenths % 10)
}

/// Whole milliseconds.
pub fn milliseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(u64::from(duration.subsec_millis()))
}

/// 1/0, true/false, yes/no, on/off, in any case.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("neither 1 nor 0".into()),
    }
}

/// 0 to 255: what an exit status holds (exit(3)).
pub fn exit_code(text: &str) -> Result<u8, String> {
    match text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse()) {
        Some(Ok(code)) => Ok(code),
        _ => Err(format!("\"{text}\" is not an exit code (0 to 255)")),
    }
}

/// Exit codes that are replaced: `143=0`, and `143` for the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExitMap(Vec<(u8, u8)>);

impl ExitMap {
    /// The code to exit with in place of `code`.
    pub fn apply(&self, code: u8) -> u8 {
        self.0.iter().find(|(from, _)| *from == code).map_or(code, |(_, to)| *to)
    }
}

impl FromStr for ExitMap {
    type Err = String;

    fn from_str(text: &str) -> Result<ExitMap, String> {
        let mut map = ExitMap::default();
        for entry in text.split(',') {
            let (from, to) = entry.split_once('=').unwrap_or((entry, "0"));
            let (from, to) = (exit_code(from.trim())?, exit_code(to.trim())?);
            if map.0.iter().any(|&(earlier, code)| earlier == from && code != to) {
                return Err(format!("{from} is mapped twice"));
            }
            map.0.push((from, to));
        }
        Ok(map)
    }
}

impl std::fmt::Display for ExitMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for (from, to) in &self.0 {
            write!(text, "{}{from}={to}", if text.is_empty() { "" } else { "," })?;
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        let cases = [
            ("0", 0),
            ("30", 30_000),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("0.25", 250),
            ("2m", 120_000),
            ("1.5m", 90_000),
            ("24h", 86_400_000),
            ("007", 7_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(duration("0.000001ms"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let not = ["", "s", "-1", "+1", "1e3", "1 s", " 1", "1d", "1.2.3", "1.", ".5", "0x10", "inf", "1S", "ms", "."];
        for text in not {
            assert_eq!(duration(text), Err("not a duration".into()), "{text:?}");
        }
        for text in ["86401", "25h", "18446744073709551615h", "1441m"] {
            assert_eq!(duration(text), Err("longer than 24h".into()), "{text:?}");
        }
        assert!(duration("99999999999999999999999").is_err());
    }

    #[test]
    fn seconds_are_written_short() {
        for (milliseconds, text) in [(28_000, "28s"), (250, "0.25s"), (1_500, "1.5s"), (0, "0s"), (100_000, "100s")] {
            assert_eq!(seconds(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn tenths_are_rounded() {
        for (milliseconds, text) in
            [(11_249, "11.2s"), (11_250, "11.3s"), (40, "0.0s"), (3_000, "3.0s"), (59_960, "60.0s")]
        {
            assert_eq!(tenths(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn booleans_have_four_spellings_each() {
        for text in ["1", "true", "YES", "On"] {
            assert_eq!(boolean(text), Ok(true));
        }
        for text in ["0", "False", "no", "OFF"] {
            assert_eq!(boolean(text), Ok(false));
        }
        assert!(boolean("2").is_err() && boolean("").is_err());
    }

    #[test]
    fn exit_codes_are_mapped_once() {
        let map: ExitMap = "143=0, 1=143,7".parse().expect("valid");
        assert_eq!([143, 1, 7, 9].map(|code| map.apply(code)), [0, 143, 0, 9]);
        assert_eq!(map.to_string(), "143=0,1=143,7=0");
        for text in ["256", "-1", "1=2=3", "a", "1=,2", "", "1=2,1=3", "+1"] {
            assert!(text.parse::<ExitMap>().is_err(), "{text:?}");
        }
    }
}

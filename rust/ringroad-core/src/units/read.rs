//! Reads quantities with units, as users write them.

use super::Seconds;

/// A text that is not the quantity that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// Not a bandwidth.
    #[error("{0:?} is not a bandwidth; write for example 100Gbit/s, 12.5GB/s or 12.5e9 (bytes per second)")]
    Bandwidth(String),
    /// Not a time.
    #[error("{0:?} is not a time; write for example 10us, 500ns or 1e-6")]
    Time(String),
    /// Too large for a number.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// Bytes per second: `100Gbit/s` or `100Gbit` (bits), `12.5GB/s` (bytes), `12.5e9`; G is 10^9.
pub fn bandwidth(text: &str) -> Result<f64, NotAQuantity> {
    let read = || {
        let (number, unit) = number(text)?;
        let (factor, rest) = match unit.as_bytes().first() {
            Some(b'K') => (1e3, &unit[1..]),
            Some(b'M') => (1e6, &unit[1..]),
            Some(b'G') => (1e9, &unit[1..]),
            Some(b'T') => (1e12, &unit[1..]),
            _ => (1.0, unit),
        };
        match rest {
            "bit/s" | "bit" | "b/s" | "bps" => Some(number * factor / 8.0),
            "B/s" => Some(number * factor),
            "" if unit.is_empty() => Some(number),
            _ => None,
        }
    };
    finite(text, read().ok_or_else(|| NotAQuantity::Bandwidth(text.to_owned()))?)
}

/// A time: `10us`, `500ns`, `1.5ms`, `2s`, `1e-6`.
pub fn seconds(text: &str) -> Result<Seconds, NotAQuantity> {
    let read = || {
        let (number, unit) = number(text)?;
        // Dividing by a whole number rounds once; multiplying by a fraction such as 1e-6 rounds twice.
        match unit.to_ascii_lowercase().as_str() {
            "ns" | "n" => Some(number / 1e9),
            "us" | "u" => Some(number / 1e6),
            "ms" | "m" => Some(number / 1e3),
            "s" | "" => Some(number),
            _ => None,
        }
    };
    finite(text, read().ok_or_else(|| NotAQuantity::Time(text.to_owned()))?)
}

fn finite(text: &str, number: f64) -> Result<f64, NotAQuantity> {
    if number.is_finite() {
        Ok(number)
    } else {
        Err(NotAQuantity::TooLarge(text.to_owned()))
    }
}

/// The number at the beginning, which has no sign, and what follows it.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if end == 0 {
        return None;
    }
    if text[end..].starts_with('.') {
        let fraction = digits(end + 1);
        if fraction == end + 1 {
            return None;
        }
        end = fraction;
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent == end + 1 + sign {
            return None;
        }
        end = exponent;
    }
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        for (text, expected) in [
            ("100Gbit/s", 12.5e9),
            ("100Gbit", 12.5e9),
            (" 200 Mbit/s ", 25e6),
            ("8b/s", 1.0),
            ("8Kbps", 1e3),
            ("12.5GB/s", 12.5e9),
            ("1.5MB/s", 1.5e6),
            ("3B/s", 3.0),
            ("12.5e9", 12.5e9),
            ("1E3", 1e3),
            ("1e+2Tbit", 1.25e13),
            ("0", 0.0),
        ] {
            assert_eq!(bandwidth(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("10us", 10e-6),
            ("500ns", 5e-7),
            ("1.5 ms", 1.5e-3),
            ("2s", 2.0),
            ("1e-6", 1e-6),
            ("20US", 20e-6),
            ("7m", 7e-3),
            ("0", 0.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "Gbit", "-1", "+1", "1.", ".5", "1e", "1e+", "1 2", "10Gb", "10gbit", "1k", "1GB", "nan",
            "inf", "1e3é",
        ] {
            assert_eq!(bandwidth(text), Err(NotAQuantity::Bandwidth(text.to_owned())), "{text}");
        }
        for text in ["", "us", "-1us", "1.us", "1h", "1 s s", "1Gbit", "1µs"] {
            assert_eq!(seconds(text), Err(NotAQuantity::Time(text.to_owned())), "{text}");
        }
        assert_eq!(bandwidth("1e400"), Err(NotAQuantity::TooLarge("1e400".to_owned())));
        assert_eq!(seconds("1e999"), Err(NotAQuantity::TooLarge("1e999".to_owned())));
    }
}

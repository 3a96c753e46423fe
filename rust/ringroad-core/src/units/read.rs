//! Reads quantities with units, as users write them.

use super::{Bytes, Seconds};

/// A text that is not the quantity that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// Not a bandwidth.
    #[error("{0:?} is not a bandwidth; write for example 100Gbit/s, 12.5GB/s or 12.5e9 (bytes per second)")]
    Bandwidth(String),
    /// Not a time.
    #[error("{0:?} is not a time; write for example 10us, 500ns or 1e-6")]
    Time(String),
    /// Not a number of bytes.
    #[error("{0:?} is not a number of bytes; write for example 8, 64KiB, 1MiB or 2G")]
    Bytes(String),
    /// A part of a byte.
    #[error("{0:?} is not a whole number of bytes")]
    PartOfByte(String),
    /// Too large for a number.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// A number of bytes: `8`, `64KiB`, `1.5MiB`, `2MB`, `4M`. KiB, MiB, GiB and TiB are powers of 1024, and KB, MB, GB and
/// TB powers of 1000. Letters alone are powers of 1024, as in nccl-tests. The largest number is 2^63 - 1.
pub fn bytes(text: &str) -> Result<Bytes, NotAQuantity> {
    let text = text.trim();
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let read = || {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (whole, part) = text[..end].split_once('.').unwrap_or((&text[..end], "0"));
        let unit = text[end..].trim_start().to_ascii_uppercase();
        let power = unit.chars().next().and_then(|letter| "KMGT".find(letter)).map_or(0, |at| at as u32 + 1);
        let unit = match (power, &unit[usize::from(power > 0)..]) {
            (0, "" | "B") => 1,
            (1.., "" | "IB") => 1024u128.pow(power),
            (1.., "B") => 1000u128.pow(power),
            _ => return None,
        };
        (is_digits(whole) && is_digits(part)).then_some((whole, part.trim_end_matches('0'), unit))
    };
    let (whole, part, mut unit) = read().ok_or_else(|| NotAQuantity::Bytes(text.to_owned()))?;
    let too_large = || NotAQuantity::TooLarge(text.to_owned());
    let mut number: u128 = format!("{whole}{part}").parse().map_err(|_| too_large())?;
    for factor in [2, 5].repeat(part.len()) {
        match (number % factor, unit % factor) {
            (0, _) => number /= factor,
            (_, 0) => unit /= factor,
            _ => return Err(NotAQuantity::PartOfByte(text.to_owned())),
        }
    }
    let product = number.checked_mul(unit).and_then(|product| i64::try_from(product).ok());
    product.map(i64::unsigned_abs).ok_or_else(too_large)
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
    fn numbers_of_bytes_are_exact() {
        for (text, expected) in [
            ("8", Ok(8)),
            (" 8B ", Ok(8)),
            ("64KiB", Ok(65536)),
            ("1.5M", Ok(3 << 19)),
            ("2 MB", Ok(2_000_000)),
            ("1.1 kb", Ok(1100)),
            ("2mib", Ok(2 << 20)),
            ("0.0009765625K", Ok(1)),
            ("1.0", Ok(1)),
            ("9223372036854775807", Ok(i64::MAX as u64)),
            ("0.5", Err(NotAQuantity::PartOfByte("0.5".to_owned()))),
            ("0.7K", Err(NotAQuantity::PartOfByte("0.7K".to_owned()))),
            ("9223372036854775808", Err(NotAQuantity::TooLarge("9223372036854775808".to_owned()))),
            ("8388608T", Err(NotAQuantity::TooLarge("8388608T".to_owned()))),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        let long = format!("{}T", "9".repeat(60));
        assert_eq!(bytes(&long), Err(NotAQuantity::TooLarge(long.clone())));
        for text in ["", "-1", "+1", "1e6", "2iB", "2MBit", "1.", ".5", "1.2.3", "K", "1 2", "٣", "1Ki"] {
            assert_eq!(bytes(text), Err(NotAQuantity::Bytes(text.to_owned())), "{text}");
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

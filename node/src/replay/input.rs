//! What a log is read from: a file or standard input, compressed by gzip or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// What a member of a gzip file begins with.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// The text of a file; of standard input for `-`.
///
/// # Errors
/// When it cannot be opened or its beginning cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return text_of(io::stdin().lock());
    }
    text_of(BufReader::new(File::open(path)?))
}

/// What is read of `input`, decompressed piece by piece if it is compressed. A file may have been
/// appended to another: all members are read.
fn text_of(mut input: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut head = Vec::new();
    input.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
    let is_compressed = head == GZIP_MAGIC;
    let whole = Cursor::new(head).chain(input);
    Ok(if is_compressed {
        Box::new(BufReader::new(MultiGzDecoder::new(whole)))
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, ErrorKind, Read, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::text_of;

    fn compressed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// Reads bytes that arrive one by one.
    fn read(bytes: &[u8]) -> std::io::Result<String> {
        let slow = BufReader::with_capacity(1, std::io::Cursor::new(bytes.to_vec()));
        let mut text = String::new();
        text_of(slow)?.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn plain_text_is_read_as_it_is() {
        for text in ["", "x", "xy", "a log\nof two lines\n"] {
            assert_eq!(read(text.as_bytes()).unwrap(), text);
        }
        // Not gzip yet.
        assert_eq!(read(b"\x1f").unwrap(), "\u{1f}");
    }

    #[test]
    fn all_members_are_decompressed() {
        let long = "line\n".repeat(100_000);
        let both = [compressed("first\n"), compressed(&long)].concat();
        assert_eq!(read(&both).unwrap(), format!("first\n{long}"));
    }

    #[test]
    fn a_file_that_is_cut_is_an_error() {
        let whole = compressed("a log\n");
        let cut = read(&whole[..whole.len() - 9]).unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
        assert!(read(&[&whole[..], b"junk"].concat()).is_err());
    }
}

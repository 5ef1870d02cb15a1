use super::*;

const LIST: &str = "
[[mutation]]
name = 'no-fence'
test = 'models::claims'
file = 'engine/src/table/claim.rs'
from = '''
    fence(SeqCst);
'''
to = ''

[[mutation]]
name = 'one-more'
test = 'traps::trap'
file = 'engine/src/gcra.rs'
from = 'a + 1'
to = '''
a
+ 2'''
";

#[test]
fn texts_are_read_to_the_byte() {
    let list = parse(LIST).expect("a list");
    assert_eq!(list.len(), 2);
    assert_eq!((&*list[0].from, &*list[0].to), ("    fence(SeqCst);\n", ""));
    assert_eq!((&*list[1].from, &*list[1].to), ("a + 1", "a\n+ 2"));
}

#[test]
fn misspelt_and_missing_fields_are_errors() {
    assert!(parse(&LIST.replace("to = ''\n", "")).is_err());
    assert!(parse(&LIST.replacen("test", "tests", 1)).is_err());
    assert!(parse(&LIST.replace("[[mutation]]", "[[mutations]]")).is_err());
}

#[test]
fn what_stands_once_is_replaced() {
    let list = parse(LIST).expect("a list");
    assert_eq!(list[1].apply("let b = a + 1;").expect("it fits"), "let b = a\n+ 2;");
    assert_eq!(list[0].apply("{\n    fence(SeqCst);\n}").expect("it fits"), "{\n}");
}

#[test]
fn what_stands_elsewhere_or_twice_does_not_fit() {
    let list = parse(LIST).expect("a list");
    assert!(list[1].apply("let b = a + 2;").is_err());
    assert!(list[1].apply("(a + 1, a + 1)").is_err());
    let same = Mutation { to: "a + 1".to_owned(), ..list[1].clone() };
    assert!(same.apply("let b = a + 1;").is_err());
}

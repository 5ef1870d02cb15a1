//! What keeps the repository tidy, held by test: the imports of modules, the size of files and
//! functions, the width of lines, and where memory orderings may stand.

mod files;
mod imports;
mod mutations;
mod orderings;
mod size;

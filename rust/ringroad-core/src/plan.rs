//! 
pub struct Plan; 

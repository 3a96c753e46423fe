//! 
pub struct Topology; 

//! Routes: one path for each pair of ranks.

mod balanced;

pub use balanced::{balanced_routes, least_load, BalancedRoutes, NoRoutes};

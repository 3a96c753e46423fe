//! The sources of the algorithms.

pub(super) const MPICH: &str = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005";
pub(super) const SWING: &str =
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), sections 3.1.1, 3.2 and 4";
pub(super) const SWING_LATENCY: &str =
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), section 3.1.2";
pub(super) const TRIVANCE: &str =
    "Juerss, Addanki, Schmid: Trivance (arXiv 2602.17254), lemma 1 and figures 4 and 5";
pub(super) const KOLMAKOV: &str =
    "Kolmakov, Zhang: A generalization of the allreduce operation (arXiv 2004.09362), sections 7 to 9";
pub(super) const BRUCK: &str =
    "Bruck, Ho: Efficient global combine operations in multi-port message-passing systems, PPL 3(4), 1993";
pub(super) const HYBRID: &str = "Trivance (arXiv 2602.17254) with the dial of Kolmakov, Zhang: A generalization of the allreduce operation (arXiv 2004.09362)";
pub(super) const NESTED: &str = "Trivance (arXiv 2602.17254), figure 4, with other distances";
pub(super) const BFB: &str = "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), appendix E.1";
pub(super) const BREADTH_FIRST: &str = "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), section 5; without linear programs";
pub(super) const EXPANSIONS: &str = "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), sections 5.1 to 5.3";
pub(super) const FOREST: &str =
    "Edmonds: Edge-disjoint branchings, 1973; switches as in Zhao et al.: ForestColl (arXiv 2402.06787)";
pub(super) const WEIGHTED: &str = "ours, with packings as in Zhao et al.: ForestColl (arXiv 2402.06787)";
pub(super) const SPANNING: &str =
    "ours; the bound is Tutte's and Nash-Williams's, J. London Math. Soc. 36, 1961";
pub(super) const BASU: &str = "Basu et al.: Efficient all-to-all collective communication schedules for direct-connect topologies, HPDC 2024; without linear programs";
pub(super) const RING: &str =
    "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009";
pub(super) const RABENSEIFNER: &str = "Rabenseifner: Optimization of collective reduction operations, ICCS 2004; on tori Sack, Gropp: Faster topology-aware collective algorithms through non-minimal communication, PPoPP 2012; for other numbers than powers of two Rabenseifner, Traff: More efficient reduction algorithms for non-power-of-two number of processors, EuroPVM/MPI 2004";
pub(super) const MPICH_MIRRORED: &str = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005; mirrored as in Swing, NSDI 2024 (arXiv 2401.09356)";
pub(super) const SACK_GROPP: &str =
    "Sack, Gropp: Faster topology-aware collective algorithms through non-minimal communication, PPoPP 2012; mirrored as in Swing, NSDI 2024 (arXiv 2401.09356)";
pub(super) const ALIGNED: &str = "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8(11), 1997; aligned groups are ours";
pub(super) const DIRECT: &str = "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8(11), 1997";
pub(super) const LINEAR: &str =
    "the linear reduce and broadcast of the first MPI libraries, with several roots";
pub(super) const GATHER_SUM: &str = "ours, along an allgather as in Juerss, Addanki, Schmid: Trivance (arXiv 2602.17254), figure 4, with other distances";
pub(super) const BUCKET: &str =
    "Jain, Sabharwal: Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS 2010";
pub(super) const TWO_TREES: &str = "Sanders, Speck, Traff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35(12), 2009";
pub(super) const HILLIS_STEELE: &str = "Hillis, Steele: Data parallel algorithms, CACM 29(12), 1986";
pub(super) const SCANS: &str =
    "Sanders, Traff: Parallel prefix (scan) algorithms for MPI, EuroPVM/MPI 2006, the linear pipeline";
pub(super) const INTERCOM: &str =
    "Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994; for reduce Rabenseifner, ICCS 2004";
pub(super) const HIERARCHICAL: &str =
    "Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994, hybrids";

// Included by tests that have one test per algorithm, so that they run in parallel and a failure names the algorithm.

macro_rules! every_algorithm {
    ($check:path: $($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            $check($name);
        })*

        #[test]
        fn every_algorithm_is_tested() {
            let tested: &[&str] = &[$($name),*];
            assert_eq!(catalogue().map(|a| a.name).collect::<Vec<_>>(), tested);
        }
    };
    ($check:path) => {
        every_algorithm! {
            $check:
            ring "ring"
            bidirectional_ring "bidirectional-ring"
            hamiltonian_rings "hamiltonian-rings"
            bucket "bucket"
            recursive_doubling "recursive-doubling"
            recursive_doubling_multiport "recursive-doubling-multiport"
            halving_doubling "halving-doubling"
            halving_doubling_multiport "halving-doubling-multiport"
            swing "swing"
            swing_latency "swing-latency"
            trivance "trivance"
            trivance_latency "trivance-latency"
            trivance_hybrid "trivance-hybrid"
            nested "nested"
            bfb_ring "bfb-ring"
            bfb "bfb"
            expanded "expanded"
            generalized "generalized"
            generalized_xor "generalized-xor"
            bruck "bruck"
            bruck_latency "bruck-latency"
            gather_sum "gather-sum"
            butterfly "butterfly"
            binomial "binomial"
            double_binary_tree "double-binary-tree"
            scatter_allgather "scatter-allgather"
            pairwise "pairwise"
            prefix_doubling "prefix-doubling"
            prefix_chain "prefix-chain"
            direct "direct"
            bruck_alltoall "bruck-alltoall"
            flow "flow"
            direct_latency "direct-latency"
            direct_ordered "direct-ordered"
            leaders "leaders"
            trees "trees"
            weighted_trees "weighted-trees"
            spanning_trees "spanning-trees"
            hierarchical "hierarchical"
            hierarchical_latency "hierarchical-latency"
        }
    };
}

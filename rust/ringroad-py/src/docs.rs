//! Sections that the docstrings of several calls share, so that each is written once.
//!
//! Docstrings are doc comments. All of them have one form: a sentence, then the sections `Args:`, `Returns:`, `Raises:`
//! and `Example:`. `tools/stubs.py` copies them into `_native.pyi`.

/// The arguments of calls that reduce.
macro_rules! reduction_arguments {
    () => {
        r#"    op: "sum", "product", "min", "max", "avg", "premul_sum", "band", "bor" or "bxor". Complex arrays
        have no "min" and "max". "avg" and "premul_sum" are for floats and complex numbers only, the
        bitwise operations for integers and bool only. "avg" divides the sum, which may overflow to infinity
        (float16: above 65504) where the average would not; "premul_sum" with `factor=1 / comm.size` divides
        first. "minloc" and "maxloc" are for structured arrays of a value and an index: the least or
        greatest value and its index, the lowest of several; NaN counts as both least and greatest. Or a NumPy
        ufunc of two inputs, a function of two arrays, or a `ringroad.Op`, on any dtype but objects.
    factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
        operation takes it. Ranks may pass different factors."#
    };
}

/// The arguments of scans.
macro_rules! prefix_arguments {
    () => {
        r#"    op: "sum", "product", "min", "max", "premul_sum", "band", "bor" or "bxor". Complex arrays have no
        "min" and "max". "premul_sum" is for floats and complex numbers only, the bitwise operations for
        integers and bool only. Or "minloc", "maxloc", a ufunc, a function or a `ringroad.Op`, as in
        `allreduce`.
    factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
        operation takes it. Ranks may pass different factors."#
    };
}

/// The numbers of rows of the ranks' blocks.
macro_rules! counts_argument {
    () => {
        "    counts: The number of rows (entries of the first axis) of each rank's block; the same on all ranks.
        None: blocks of equal length."
    };
}

/// The arguments of all collectives.
macro_rules! collective_arguments {
    () => {
        concat!(algorithm_argument!(), call_arguments!())
    };
    (wire) => {
        concat!(algorithm_argument!(), wire_arguments!(), "\n", call_arguments!())
    };
}

/// The argument of all collectives that names an algorithm.
macro_rules! algorithm_argument {
    () => {
        r#"    algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
        its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
"#
    };
}

/// The arguments of collectives that can send fewer bytes.
macro_rules! wire_arguments {
    () => {
        r#"    wire: A format in which floating-point elements are sent: "bf16", "f16", "fp8", "int8" or "int4"; the
        same on all ranks. All ranks end with the same bits, which differ from the exact result. Rounding is to
        the nearest number; "int8:stochastic" and "int4:stochastic" choose one of the two next numbers at random,
        so that errors are 0 on average and at most twice as large. None: as they are. Formats with a scale for
        every 256 elements (all but bf16) keep their bound for every finite number of any type, float64, too; an
        element among subnormal numbers may move by half the smallest number of its type more. bf16 has the
        range of float32: magnitudes above 3.38e38 become infinite, and those below 1.2e-38 lose bits or become 0.
        `max_error` never takes it.
    max_error: Instead of `wire`, the most by which the result may differ from the exact one, as a fraction of
        the sum of the ranks' largest magnitudes. The fastest format and algorithm within it are chosen."#
    };
}

/// The arguments of all calls.
macro_rules! call_arguments {
    () => {
        "    timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
        any array of the call, and do not read its result."
    };
}

/// What collectives on arrays raise.
macro_rules! collective_errors {
    () => {
        concat!(
            array_errors!(),
            "
    ScheduleError: `algorithm` is unknown, does not run on this network, or combines values in another order
        than `op` needs. Nothing was sent.
",
            call_errors!()
        )
    };
}

/// What calls with arrays raise before they send anything.
macro_rules! array_errors {
    () => {
        "    TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
        support the dtype. Nothing was sent.
    ValueError: An argument has the wrong shape or value, or an array that is written to is read-only or has
        elements that share memory. Nothing was sent; correct the argument and call again."
    };
}

/// What sends and receives of arrays raise.
macro_rules! message_errors {
    () => {
        concat!(
            "    TypeError: An input cannot be made a NumPy array, what is written to is none, or the dtype is not
        supported. Nothing was sent.
    ValueError: A rank or tag does not exist, or an array that is written to is read-only or has elements
        that share memory. Nothing was sent; correct the argument and call again.
",
            call_errors!()
        )
    };
}

/// What calls on Python objects raise.
macro_rules! object_errors {
    () => {
        concat!(
            "    ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
    Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
        be unpickled, the call has ended.
",
            call_errors!()
        )
    };
}

/// What calls raise that fail while they run.
macro_rules! call_errors {
    () => {
        "    MismatchError: Ranks made different calls. The message lists what each rank called.
    TimeoutError: The call did not complete in time. The message names the ranks that are missing.
    PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
    AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
    TransportError: The network failed.
    MemoryError: There is not enough memory for messages."
    };
}

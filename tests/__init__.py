"""Tests mirror the package: one folder per folder, one file per module or a few modules.

Files without ``test_`` hold what tests share: ``certificates`` judges any fit, ``subproblems*`` say
what a fit solved, ``client`` is a user's script for type checkers, ``reference*`` compute optima
and formulas without the package, ``random_*`` draw problems, ``interrupts`` sends Ctrl-C, ``walks``
records the calls of a fit; ``fits``, ``callbacks``, ``user_losses``, ``user_models``, ``chains``,
``structures``, ``sequences``, ``parameters``, ``blocks``, ``plain_shapes``, ``kernel_machines``,
``kernel_problems`` and ``saved_models`` are helpers for tests of their kind. No file of tests
imports another.

The map has a file of tests on the left, and on the right the modules whose faults it has to find.
Their paths begin in the folder of ``sklearn_bundle`` that heads the part, or with ``/`` at its
root. A folder stands for everything in it. A file without modules tests the package as a whole, or
the references. ``project/test_map.py`` compares the map with the folders. The README's command runs
the tests of what users call: the files at the root, in ``core`` and in ``estimators``.

.
    test_smoke.py
    test_common.py
    test_certificates.py
    test_plain_shapes.py
    test_best_kept.py
    test_realdata.py
    test_optimum_bounds.py      core/certainty.py linear/problems/score_region.py
                                kernel/estimators/_kernel.py linear/estimators/_linear.py
                                core/certain_choice.py linear/estimators/bmrm_cv.py
    test_compile.py             compile.py jit/announce.py
    test_imports.py             __init__.py losses.py regularizers.py models.py
    test_onnx.py                onnx.py
    test_saving.py
    test_saved_files.py         saving.py core/saved_values.py
    test_projection.py          projection.py core/multiplier.py
                                core/_compiled/projection.py

project
    test_map.py
    test_tree.py
    test_walks.py
    test_release.py
    test_release_cells.py
    test_stress.py
    test_judge_of_regions.py
    test_pages.py               /core/shared_docs.py
    test_figures.py
    test_paper_peers.py
    test_cells.py
    test_references.py
    test_references_digits.py
    test_references_structured.py

core
    test_parameters.py          parameters.py values.py
    test_arguments.py           values.py weights.py validation.py
    test_bad_input.py           validation.py
    test_callbacks.py           base.py fit.py monitor.py reports.py
    test_bars.py                /callbacks.py bars.py monitor.py
    test_misread.py             misread.py validation.py
    test_frames.py              misread.py validation.py
    test_shared_docs.py         shared_docs.py
    test_sparse_format.py       sparse.py
    test_blas.py                parallel.py
    test_declared.py            fit.py /linear/estimators/_linear.py /kernel/estimators/_kernel.py
                                /chain/estimators/_labeling.py search.py
    test_flat_grids.py          fit.py
    test_hints.py               parameters.py
    test_tracebacks.py          tracebacks.py parameters.py
    test_searches.py            search.py reports.py contract.py
                                /linear/estimators/_scores.py
    test_seen.py                base.py /linear/estimators/_linear.py
    test_subproblems.py         parallel.py
    test_warm_start.py          warm.py fit.py
    test_refits.py              warm.py
    test_contract.py            contract.py
    test_certificate.py         certificate.py
    test_lbfgs.py               lbfgs.py /structured/solvers/adapted.py
    test_score_rounding.py      score_rounding.py
    test_optimum.py             optimum.py certainty.py certain_choice.py
    test_one_variable.py        one_variable.py

jit
    test_jit.py                 decorators.py cache.py /core/limits.py
    test_internals.py           decorators.py cache.py announce.py
                                /core/sklearn_internals.py
    test_elementary.py          elementary.py
    test_vector.py              vector.py lanes.py
    test_sampling.py            sampling.py

linear/losses
    test_binary.py              base.py samples.py hinge.py logistic.py scores.py pieces.py
                                /linear/_compiled/scores.py /core/one_variable.py
    test_hinge.py               hinge.py pieces.py
    test_intercepts.py          pieces.py hinge.py
    test_regression.py          regression.py poisson.py novelty.py pieces.py scores.py
                                /linear/_compiled/scores.py
    test_multiclass.py          multiclass.py softmax.py ontology.py /linear/_compiled/classes.py
    test_measures.py            measures.py
    test_ranking.py             ranking.py pairs.py positions.py
    test_scores.py              *.py
                                /linear/_compiled/scores.py /linear/_compiled/coordinate.py
    test_newton_binary.py       scores.py pieces.py logistic.py /linear/_compiled/scores.py

linear/regularizers
    test_regularizers.py        base.py norms.py sparse.py entropy.py

linear/rows
    test_blocks_cluster.py      _dask.py _dask_cluster.py _dask_waiting.py
    test_blocks_direct.py       _dask_direct.py _dask_cluster.py
    test_blocks_frames.py       _dask_rows.py /linear/estimators/_blocks.py /core/misread.py
    test_blocks_time.py         _dask_waiting.py /linear/solvers/rounds.py
    test_memory_rows.py         memory_rows.py /linear/_compiled/design.py

linear/problems
    test_balanced_planes.py     balance.py /linear/solvers/bundle.py
    test_linear.py              linear.py /linear/rows/rows.py /linear/rows/memory_rows.py
                                /kernel/values/_exact_sums.py /linear/_compiled/design.py
                                /core/parallel.py
    test_linear_rounding.py     linear_rounding.py
    test_score_region.py        score_region.py /linear/rows/amid_rows.py
    test_curved_region.py       curved_region.py kinked_region.py kink_rows.py
    test_kink_rows.py           kink_rows.py /linear/solvers/newton.py
    test_class_intercepts.py    class_intercepts.py
    test_order_region.py        order_region.py
    test_row_blocks.py          row_block.py row_blocks.py round_risk.py
                                /linear/solvers/lbfgs.py
    test_gathered_rows.py       gathered_rows.py row_block.py

linear/solvers
    test_protocols.py           protocols.py solver.py
    test_bundle.py              bundle.py _descent.py inner/planes.py
    test_inner.py               inner/ /structured/solvers/faces.py /kernel/problems/l2tube.py
                                /linear/_compiled/simplex_qp.py
    test_newton.py              newton.py _descent.py
                                /linear/problems/memory_risk.py /linear/problems/score_risk.py
                                /linear/_compiled/design.py
    test_newton_models.py       _descent.py newton.py /linear/losses/scores.py
                                /linear/problems/score_risk.py /linear/_compiled/scores.py
    test_newton_regression.py   newton.py /linear/losses/scores.py
    test_dual_coordinate.py     dual_coordinate.py _dual_steps.py
                                /linear/losses/scores.py
                                /linear/_compiled/coordinate.py
    test_dual_targets.py        dual_coordinate.py /linear/losses/pieces.py
    test_class_coordinate.py    class_coordinate.py dual_coordinate.py
                                _class_dual.py /linear/losses/multiclass.py
                                /linear/_compiled/classes.py
    test_gram_path.py           gram_path.py /linear/estimators/_path.py
    test_coordinate_descent.py  coordinate_descent.py _working_set.py _columns.py
                                /linear/_compiled/lasso.py
                                /linear/losses/scores.py
    test_lbfgs.py               lbfgs.py descent_solver.py
                                /core/lbfgs.py
    test_softmax.py             descent_solver.py _class_curvature.py _class_descent.py
                                /linear/losses/softmax.py
    test_least_squares.py       least_squares.py /linear/problems/normal_equations.py
    test_sample_planes.py       sample_planes.py
    test_linear_auto.py         linear_auto.py solver.py /core/contest.py
    test_excessive_gap.py       excessive_gap.py hinge_gap.py
                                /linear/_compiled/design.py

linear/estimators
    test_bmrm.py                bmrm.py _linear.py /core/fit.py /core/validation.py
    test_bmrm_optima.py         bmrm.py
    test_bmrm_multiclass.py     bmrm.py _bundle.py _linear.py
    test_bmrm_regressor.py      bmrm_regressor.py
    test_bmrm_ranker.py         bmrm_ranker.py /chain/readers/features.py
    test_ranker_bounds.py       _order_bounds.py
    test_bmrm_novelty.py        bmrm_novelty.py
    test_bmrm_regularizers.py   _bundle.py
    test_listing.py             _listing.py
    test_cost.py                _linear.py bmrm_cv.py
    test_single_precision.py    _linear.py
    test_strong_regularization.py _bundle.py /linear/problems/largest.py
    test_units_of_y.py          bmrm_regressor.py
    test_bmrm_path.py           _path.py /core/path.py
    test_bmrm_cv.py             bmrm_cv.py /core/search.py _scores.py
    test_sparse_models.py       _path.py _bundle.py _linear.py /linear/problems/largest.py
    test_blocks.py              _blocks.py _block_reading.py _scores.py _bundle.py
                                /linear/rows/_dask_workers.py /linear/problems/row_block.py
                                /linear/problems/row_blocks.py /linear/problems/round_risk.py
                                /linear/solvers/rounds.py
    test_pragam.py              pragam.py

linear/_compiled
    test_selection.py           selection.py
    test_simplex_qp.py          simplex_qp.py

kernel/values
    test_kernel.py              kernel.py kernel_function.py kernel_scores.py _points.py
                                _exact_sums.py /kernel/_compiled/rows.py
    test_row_cache.py           row_cache.py

kernel/problems
    test_box.py                 box.py
    test_l2tube.py              l2tube.py /kernel/values/_exact_sums.py
    test_row_gaps.py            row_gaps.py box.py l2svm.py l2tube.py

kernel/solvers
    test_swap.py                swap.py base.py /kernel/_compiled/swap.py
    test_active_set.py          active_set.py /kernel/problems/l2svm.py /kernel/_compiled/lazy.py
    test_kernel_gradients.py    kernel_gradients.py /kernel/problems/l2tube.py
    test_decomposition.py       decomposition.py /kernel/_compiled/decomposition.py
                                /kernel/_compiled/tiles.py /jit/lanes.py
                                /jit/exact_sums.py /kernel/values/kernel.py
                                /kernel/values/_exact_sums.py
    test_pairs.py               pairs.py /kernel/_compiled/pairs.py /kernel/estimators/swap.py
    test_working_set.py         working_set.py /kernel/_compiled/working_set.py
    test_whole.py               whole.py /kernel/_compiled/decomposition.py
                                /kernel/problems/l2svm.py /kernel/values/kernel_data.py

kernel/estimators
    test_swap_svc.py            swap.py _kernel.py _machine.py
    test_swap_svc_optimum.py    swap.py _kernel.py /kernel/problems/l2svm.py
    test_swap_svc_runs.py       swap.py /kernel/solvers/active_set.py
    test_swap_svc_limits.py     swap.py /kernel/problems/l2svm.py /kernel/solvers/base.py
    test_semidefinite.py        _kernel.py /kernel/values/kernel_data.py
    test_kernel_sparse.py       _kernel.py
    test_swap_svc_input.py      swap.py _kernel.py
    test_swap_rounding.py       swap.py /kernel/problems/l2svm.py
    test_swap_box.py            swap.py swap_svr.py swap_novelty.py _kernel.py
                                /kernel/problems/box.py /kernel/solvers/working_set.py
    test_kernel_certain.py      _search.py swap_cv.py /core/certain_choice.py
    test_kernel_search.py       _search.py swap_cv.py /kernel/values/search_values.py
    test_swap_cv.py             swap_cv.py /core/search.py
    test_swap_svr.py            swap_svr.py _kernel.py
    test_swap_svr_cv.py         swap_cv.py /core/search.py
    test_swap_novelty.py        swap_novelty.py swap_svr.py

chain
    test_chain.py               problem.py model.py _compiled/chain.py _compiled/chain_d*.py
                                _compiled/chain_steps.py _compiled/forward_backward.py
                                /jit/sums.py
    test_chain_states.py        dual_ascent.py /core/dual_methods.py

chain/readers
    test_sequences.py           sequences.py packing.py
    test_sequences_tokens.py    sequences.py packing.py
    test_sequences_errors.py    sequences.py packing.py
    test_sequences_empty.py     sequences.py packing.py /chain/estimators/_labeling.py
                                /chain/model.py

chain/estimators
    test_crf_certain.py         crf_cv.py _labeling.py /chain/certainty.py
    test_crf_cv.py              crf_cv.py /chain/problem.py /core/search.py
                                /linear/estimators/_path.py
    test_crf.py                 crf.py
    test_crf_api.py             crf.py
    test_certain.py             crf.py /chain/certainty.py
    test_crf_input.py           crf.py /chain/readers/packing.py
    test_crf_l1.py              crf.py _labeling.py /chain/penalty.py
    test_crf_predict.py         crf.py _labeling.py
    test_crf_runs.py            crf.py
    test_crf_passes.py          crf.py /core/lbfgs.py
    test_crf_rounding.py        /chain/problem.py /chain/_compiled/chain_rounding.py
                                /core/roundoff.py
    test_chain_shapes.py        crf.py /structured/estimators/structured.py

chain/_compiled
    test_forward_backward.py    forward_backward.py

structured/models
    test_listed.py              examples.py base.py
    test_classes.py             classes.py examples.py /structured/_compiled/class_oracle.py
                                /structured/_compiled/structures.py
    test_graph.py               graph.py /structured/_compiled/graph_oracle.py
    test_graph_input.py         graph_input.py
    test_matching.py            matching.py
    test_pairwise.py            pairwise.py pairwise_relaxed.py
                                /structured/_compiled/pairwise_oracle.py
                                /structured/solvers/block_solvers.py
    test_multilabel.py          multilabel.py /structured/_compiled/multilabel_oracle.py
                                /structured/readers/outputs.py
    test_chain_structure.py     chain_structure.py /chain/model.py
                                /structured/_compiled/chain_oracle.py /chain/_compiled/chain.py
    test_segments.py            segments.py segment_layout.py /structured/_compiled/segment_*.py
                                /structured/readers/segment_reader.py

structured/problems
    test_structured.py          structured.py /structured/models/base.py
                                /structured/models/examples.py /structured/_compiled/structures.py
    test_structured_log.py      structured_log.py /structured/models/base.py
                                /structured/models/examples.py /structured/_compiled/structures.py
                                /structured/_compiled/chain_oracle.py
                                /structured/_compiled/class_oracle.py

structured/solvers
    test_marginal_gap.py        adapted.py /linear/solvers/excessive_gap.py
                                /structured/problems/marginal_chain.py
                                /structured/_compiled/chain_marginals.py
    test_structured_solvers.py  adapted.py block_solvers.py one_simplex.py blocks.py faces.py
                                /structured/_compiled/block_steps.py
                                /structured/_compiled/outputs.py
                                /core/dual_methods.py /core/limits.py

structured/estimators
    test_structured.py          structured.py /structured/readers/structures.py
                                /structured/solvers/adapted.py
    test_structured_api.py      structured.py /structured/readers/structures.py
                                /structured/readers/outputs.py /chain/estimators/_labeling.py
    test_structured_runs.py     structured.py /core/fit.py
    test_structured_log.py      structured.py _structured_solvers.py /structured/readers/outputs.py
                                /structured/solvers/adapted.py

structured/_compiled
    test_clique_projection.py   clique_projection.py
    test_min_cut.py             graph_oracle.py

datasets
    test_readers.py             _conll.py _svmlight.py _openml.py
    test_frame.py               _frame.py
    test_mapped.py              _mapped.py

metrics
    test_metrics.py             _spans.py _tokens.py _label_sequences.py
    test_scorers.py             _spans.py _tokens.py
    test_segments.py            _segments.py

plotting
    test_plotting.py            _convergence.py _path.py _figures.py
"""

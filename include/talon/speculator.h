/* Speculation alone: drafts and verdicts for a runtime with a model of its own. One round of a
 * sequence:
 *   talon_sequence_propose()   a tree; its root is the last token of the text
 *   the runtime runs its model over all nodes, each seeing the text and its ancestors
 *   talon_sequence_verify()    the nodes that become text and the token after them
 * The text is what the runtime's model alone would have drawn with the same request. */
#ifndef TALON_H
#include "../talon.h" /* which includes this file */
#elif !defined(TALON_SPECULATOR_H)
#define TALON_SPECULATOR_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct talon_speculator talon_speculator;
typedef struct talon_sequence talon_sequence;

typedef struct talon_speculator_options {
  size_t size;
  const char* method;       /* DRAFTER[@verify=RULE]; NULL: suffix */
  int32_t vocabulary;       /* of the runtime's model; 0: that of `model` */
  int32_t unused;           /* 0 */
  const talon_model* model; /* whose heads draft; NULL: only drafters that read nothing but text */
  const char* const* head_folders; /* as talon_engine_options */
  size_t head_folder_count;
  talon_log_fn log; /* of the speculator and its sequences; may be NULL */
  void* log_user;
} talon_speculator_options;

typedef struct talon_tree {
  size_t size;
  const int32_t* tokens;
  const int32_t* parents; /* -1 for the root */
  const float* log_p;
  const uint8_t* probes; /* 1: computed for what follows it, never text */
  size_t node_count;
} talon_tree;

typedef struct talon_verdict {
  size_t size;
  const int32_t* path; /* ids of the accepted nodes, the root first */
  size_t path_count;
  int32_t next; /* the token after the last of them: the next tree's root */
  int32_t unused;
} talon_verdict;

TALON_API talon_status talon_speculator_new(const talon_speculator_options* options,
                                            talon_speculator** speculator);
TALON_API void talon_speculator_free(talon_speculator* speculator);
/* Floats of a row that talon_sequence_observe() wants: the streams entering layers `layers`, -1 for
 * what the output matrix reads, side by side. 0: the drafter reads only text. */
TALON_API int32_t talon_speculator_feature_width(const talon_speculator* speculator);
TALON_API talon_status talon_speculator_layers(const talon_speculator* speculator,
                                               const int32_t** layers, size_t* count);

/* Of the request it reads the prompt, seed, choice and how tokens are drawn. One with a form is
 * refused: these are the engine's. */
TALON_API talon_status talon_sequence_new(talon_speculator* speculator,
                                          const talon_request* request, talon_sequence** sequence);
TALON_API void talon_sequence_free(talon_sequence* sequence);
/* At most 4096 nodes besides the root. What the sequence shows lives until the next call on it.
 * Heads draft up to the context of their model; beyond it the tree is its root. */
TALON_API talon_status talon_sequence_propose(talon_sequence* sequence, int32_t most_nodes,
                                              int32_t most_levels, talon_tree* tree);
/* logits: of each node of the tree a row of `vocabulary` floats, `stride` floats from one to the
 * next. Accepted tokens and the next one become text. A drafter that fails then drafts no more, and
 * the log is told. */
TALON_API talon_status talon_sequence_verify(talon_sequence* sequence, const float* logits,
                                             size_t stride, talon_verdict* verdict);
/* Only with a feature width: the rows of the prompt but its last, and after each verdict those of
 * its path, before the next propose. */
TALON_API talon_status talon_sequence_observe(talon_sequence* sequence, const float* features,
                                              size_t rows);

/* Fills `size` bytes, as the other makers in talon.h. */
TALON_API talon_status talon_speculator_options_init(talon_speculator_options* options,
                                                     size_t size);

TALON_MAKES_DEFAULT(talon_speculator_options, talon_speculator_default)
TALON_MAKES_EMPTY(talon_tree)
TALON_MAKES_EMPTY(talon_verdict)

#ifdef __cplusplus
}
#endif

#endif

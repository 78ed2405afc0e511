/* Talon behind a C interface: models, tokens, engines that answer with drafts, and speculation
 * alone for runtimes that bring their own model, which is in talon/speculator.h; this header
 * includes it. How to build, and programs: docs/library.md.
 *
 * Every call that can fail returns a talon_status; talon_last_error() then says what went wrong,
 * naming the argument, what was expected and what was found. Nothing throws, aborts, prints or
 * reads the environment. Texts are UTF-8 and end with a zero byte.
 *
 * Structs begin with their size, so that programs and libraries of different versions understand
 * each other: make options with talon_..._default(), and outputs with talon_..._empty().
 *
 * Threads: any handle may be used from any thread, a sequence from one at a time. Calls on one
 * engine, and the computing parts of calls on one model, take turns; those that cancel never wait.
 * A handle is freed when no other call uses it; a model lives as long as what was made from it.
 * Callbacks come on the thread that made the call and may call anything but what would wait for
 * that call: then that is refused. Callbacks of two engines on two threads must not each call the
 * other's engine: both would hang.
 *
 * Processes fork while no other thread is in a call. In a fork, calls that compute with a model of
 * several threads are refused. What the parent made may be freed, before it opens its own. */
#ifndef TALON_H
#define TALON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TALON_VERSION_MAJOR 0
#define TALON_VERSION_MINOR 1
#define TALON_VERSION_PATCH 0
/* Of the binary interface: a program runs with any library that has the same number. */
#define TALON_ABI_VERSION 1

#if defined(__GNUC__)
#define TALON_API __attribute__((visibility("default")))
#else
#define TALON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0", of the library that runs. */
TALON_API const char* talon_version(void);
TALON_API uint32_t talon_abi_version(void);

/* ---- Errors ---- */

typedef enum talon_status {
  TALON_OK = 0,
  TALON_BAD_ARGUMENT = 1, /* the caller's mistake: the message names the argument */
  TALON_FAILED = 2,       /* a file, a machine or a component: the message says which */
  TALON_TOO_LONG = 3,     /* a prompt that the context or the cache cannot hold */
  TALON_QUEUE_FULL = 4,   /* later the request may be taken */
  TALON_CANCELLED = 5,    /* as the caller asked */
  TALON_NO_MEMORY = 6,
  TALON_BUG = 7 /* a broken promise of the library */
} talon_status;

/* "ok", "bad argument", ... */
TALON_API const char* talon_status_name(talon_status status);
/* Of this thread's last call that failed; empty if none has. Valid until its next call. */
TALON_API const char* talon_last_error(void);

/* ---- Callbacks and the cancel flag ---- */

typedef enum talon_log_level { TALON_LOG_INFO = 0, TALON_LOG_WARNING = 1 } talon_log_level;
typedef void (*talon_log_fn)(void* user, talon_log_level level, const char* message);
/* `done` of `total` parts of `what`. */
typedef void (*talon_progress_fn)(void* user, const char* what, size_t done, size_t total);

/* Asks long work to end soon. */
typedef struct talon_cancel talon_cancel;
TALON_API talon_status talon_cancel_new(talon_cancel** cancel);
/* From any thread, or a signal handler. */
TALON_API void talon_cancel_request(talon_cancel* cancel);
TALON_API void talon_cancel_clear(talon_cancel* cancel);
TALON_API void talon_cancel_free(talon_cancel* cancel);

/* Frees what a call has handed out as text or ids; one that fails hands out NULL. */
TALON_API void talon_free(void* memory);

/* ---- Models ---- */

typedef struct talon_model talon_model;

typedef enum talon_backend { TALON_BACKEND_CPU = 0, TALON_BACKEND_REFERENCE = 1 } talon_backend;

typedef struct talon_model_options {
  size_t size;
  const char* models_folder; /* as `talon pull` fills it; NULL: none */
  int32_t backend;           /* talon_backend; the reference is slow and exact */
  int32_t threads;           /* 0: as many as the machine allows */
  int32_t fixed_threads;     /* 1: not fewer while other programs need the processors */
  int32_t context;           /* positions; 0: all that the model allows */
  const char* weights;       /* how they are kept: stored, int8, int4, bf16, f32; NULL: stored */
  const char* activations;   /* rounding of inputs: 8, mixed, 16; NULL: fit for the model */
  talon_log_fn log;          /* may be NULL */
  void* log_user;
  talon_progress_fn progress; /* may be NULL; tensors that are ready */
  void* progress_user;
  const talon_cancel* cancel; /* may be NULL */
} talon_model_options;

typedef struct talon_model_info {
  size_t size;
  const char* path;
  const char* name; /* in the catalogue; empty: it is not one of its models */
  int32_t vocabulary;
  int32_t context;
  int32_t hidden;
  int32_t layers;
  int32_t threads;
  int32_t has_tokenizer;
  int32_t has_chat_template;
  int32_t start_token; /* -1: none */
  uint64_t weight_bytes;
  const int32_t* end_tokens;
  size_t end_token_count;
} talon_model_info;

/* `source`: a GGUF file, a folder of Hugging Face, a checkpoint of llama2.c, or the name of what
 * `talon pull` has fetched: of the catalogue, or OWNER/NAME[@REVISION][:FILE] of a hub. */
TALON_API talon_status talon_model_load(const char* source, const talon_model_options* options,
                                        talon_model** model);
/* What it points to lives as long as the model. */
TALON_API talon_status talon_model_describe(const talon_model* model, talon_model_info* info);
TALON_API void talon_model_free(talon_model* model);

/* Logits of the rows from `first` on of the text `tokens`, without drafts or sampling:
 * [count - first, vocabulary] floats in `logits`, which has room for `capacity` of them. */
TALON_API talon_status talon_model_logits(const talon_model* model, const int32_t* tokens,
                                          size_t count, size_t first, float* logits,
                                          size_t capacity);

/* ---- Text and tokens ---- */

typedef struct talon_message {
  const char* role; /* system, user, assistant, tool */
  const char* content;
} talon_message;

typedef struct talon_text_options {
  size_t size;
  int32_t parse_special;         /* 1: text of special tokens becomes their id */
  int32_t add_start;             /* 1: the start token first, if the model wants one */
  int32_t skip_special;          /* of ids to text, 1: special tokens add nothing */
  int32_t add_generation_prompt; /* of chats, 1: the answer's beginning follows the messages */
  const char* variables; /* of chats: a JSON object that the template may read; NULL: none */
  /* Of chats: a JSON array with an object for each message, its further entries: tool_calls (whose
   * arguments are objects), tool_call_id, name, reasoning_content, ... NULL: none has any. */
  const char* message_entries;
} talon_text_options;

/* Ids of a text of `bytes` bytes, at most 16777216, in memory of their own: talon_free(). options:
 * NULL for those of a prompt that its user wrote as a whole. */
TALON_API talon_status talon_tokenize(const talon_model* model, const char* text, size_t bytes,
                                      const talon_text_options* options, int32_t** tokens,
                                      size_t* count);
/* Text of ids, ends with a zero byte that `bytes` does not count: talon_free(). Bytes that are no
 * UTF-8 become U+FFFD. */
TALON_API talon_status talon_detokenize(const talon_model* model, const int32_t* tokens,
                                        size_t count, const talon_text_options* options,
                                        char** text, size_t* bytes);
/* What one token adds to a text: bytes, which need not be whole characters. talon_free(). */
TALON_API talon_status talon_token_bytes(const talon_model* model, int32_t token, char** text,
                                         size_t* bytes);
/* The chat as the model's template writes it, by the one for tools, if it has one, where variables
 * hold `tools` or a message `tool_calls`: talon_free(). */
TALON_API talon_status talon_chat_text(const talon_model* model, const talon_message* messages,
                                       size_t message_count, const talon_text_options* options,
                                       char** text, size_t* bytes);
/* The chat as the model is fed it. Special tokens come from the template alone, never from what
 * messages say. talon_free(). */
TALON_API talon_status talon_chat_tokenize(const talon_model* model, const talon_message* messages,
                                           size_t message_count, const talon_text_options* options,
                                           int32_t** tokens, size_t* count);

/* ---- Requests ---- */

/* What talon_request.form_text is, which the answer keeps to, as with `talon run`: only what it
 * allows is drawn, and the answer ends where nothing more may follow. */
typedef enum talon_form {
  TALON_FORM_NONE = 0,        /* any answer; form_text is NULL */
  TALON_FORM_JSON_SCHEMA = 1, /* JSON on one line, as this schema says */
  TALON_FORM_REGEX = 2,
  TALON_FORM_GRAMMAR = 3, /* llguidance's Lark, or llama.cpp's GBNF, known by its `::=` */
  TALON_FORM_CHOICE = 4   /* a JSON array: one of its texts */
} talon_form;

/* What an answer is a function of, and what it may take. */
typedef struct talon_request {
  size_t size;
  const int32_t* prompt; /* at least one token */
  size_t prompt_count;
  const char* method; /* DRAFTER[@policy=POLICY][@verify=RULE]; NULL: the engine's */
  int32_t max_new;    /* tokens of the answer, which also ends where the context does */
  int32_t min_new;    /* before so many, end tokens are not drawn and stop texts not looked for */
  uint64_t seed;
  uint32_t choice;           /* which of several answers to one prompt */
  int32_t top_k;             /* 0: off */
  double temperature;        /* 0: the most probable token */
  double top_p;              /* 1: off */
  double min_p;              /* 0: off */
  double typical_p;          /* 1: off */
  double repetition_penalty; /* 1: off */
  double presence_penalty;
  double frequency_penalty;
  int32_t penalty_window; /* last tokens that count as seen for repetition; 0: all */
  int32_t ignore_end;     /* 1: no token ends the answer but those of end_tokens */
  const int32_t* bias_tokens;
  const float* bias_values; /* added to the logits of bias_tokens */
  size_t bias_count;
  const int32_t* banned;
  size_t banned_count;
  const int32_t* end_tokens; /* besides the model's own */
  size_t end_token_count;
  const char* const* stop_texts; /* the token that completes one is the last */
  size_t stop_text_count;
  int32_t reuse_prefix; /* 1: prompts that begin alike share rows, with earlier and later ones */
  int32_t priority;     /* of those that wait, lower numbers are admitted first */
  uint64_t tenant;      /* those of different tenants share no rows */
  int32_t logprobs;   /* for each token its log-probability and those of so many others; -1: none */
  int32_t form;       /* talon_form of form_text */
  double deadline_ms; /* from now; 0: none */
  const int32_t* expected; /* what the answer may be like: drafts follow it, tokens do not */
  size_t expected_count;
  const char* form_text; /* what the answer must look like; needs the model's tokenizer */
} talon_request;

typedef enum talon_finish {
  TALON_FINISH_NONE = 0,       /* it goes on */
  TALON_FINISH_STOP_TOKEN = 1, /* an end token, which is the last, or the end of its form */
  TALON_FINISH_STOP_TEXT = 2,
  TALON_FINISH_LENGTH = 3,
  TALON_FINISH_CANCELLED = 4,
  TALON_FINISH_DEADLINE = 5,
  TALON_FINISH_NO_ROOM = 6, /* the cache cannot hold more of it, whatever else runs */
  TALON_FINISH_FAILED = 7   /* talon_news.error says why */
} talon_finish;
TALON_API const char* talon_finish_name(int32_t finish);

typedef struct talon_statistics {
  size_t size;
  int32_t prompt_tokens;
  int32_t reused_tokens; /* of the prompt, found in the cache */
  int32_t answer_tokens;
  int32_t rounds;          /* checks after the prefill, which makes the first token */
  int32_t accepted_tokens; /* of all rounds */
  int32_t drafted_tokens;  /* draft nodes checked */
  int32_t preemptions;
  int32_t unused;
  double tau;               /* tokens per check */
  double tokens_per_second; /* after the first */
  double waiting_ms;
  double prefill_ms;
  double decode_ms; /* of which: */
  double draft_ms;
  double check_ms;
  double distortion; /* per token, of rules that are not lossless */
} talon_statistics;

typedef struct talon_logprob {
  int32_t token;
  int32_t unused;
  double log_p;
} talon_logprob;

/* One round's news of a request. Borrowed for the call. */
typedef struct talon_news {
  size_t size;
  uint64_t request;
  const int32_t* tokens; /* new in this round */
  size_t token_count;
  const char* text; /* new in this round; held back while it may become a stop text */
  size_t text_bytes;
  int32_t accepted; /* how many of the first of the tokens had been drafted */
  int32_t finish;   /* talon_finish */
  const char* error;
  /* If asked for: of each token, and for each the `top_count` most probable ones. */
  const double* token_logprobs;
  const talon_logprob* top;
  size_t top_count;
  const talon_statistics* statistics; /* so far */
} talon_news;

/* 0: go on; any other number ends this answer as cancelled. */
typedef int (*talon_news_fn)(void* user, const talon_news* news);

/* ---- Engines ---- */

/* Runs many requests at once through one loop: propose, check, accept, commit. The answer to a
 * request depends on the request and the model alone. */
typedef struct talon_engine talon_engine;

/* One finished check of one request. Borrowed for the call. */
typedef struct talon_round {
  size_t size;
  uint64_t request;
  int32_t round;    /* 1 for the first after the prefill */
  int32_t position; /* of the root in the text */
  /* The draft tree: node 0 is the last token of the text, parents precede children. */
  const int32_t* tokens;
  const int32_t* parents; /* -1 for the root */
  const float* log_p;     /* of the whole path, as the drafter believes */
  size_t node_count;
  const int32_t* accepted; /* ids of the nodes that became text, the root first */
  size_t accepted_count;
  const int32_t* emitted; /* the tokens that became text */
  size_t emitted_count;
  double draft_ms;
  double check_ms;
} talon_round;
typedef void (*talon_round_fn)(void* user, const talon_round* round);

typedef struct talon_engine_options {
  size_t size;
  const char* method;   /* of requests that name none, in the form of theirs; NULL: auto */
  uint64_t cache_bytes; /* 0: one whole context, at most 1 GiB and half of the available memory */
  int32_t cache_f32;    /* 1: keys and values are kept as float32; 0: in 16 bits */
  int32_t chunk;        /* most prompt rows of one request in one step */
  int32_t max_nodes;    /* most draft nodes of one request in one check: 0 to 4096 */
  int32_t most_waiting; /* requests that have no room yet; more are refused */
  double step_ms;       /* how long a step with prompts may take while others answer; 0: no limit,
                           below 0: some times what a token takes */
  /* Where heads lie; NULL: share/talon/models beside the library's folder. */
  const char* const* head_folders;
  size_t head_folder_count;
  const char* costs_folder; /* where measured costs are kept between runs; NULL: nowhere */
  talon_log_fn log;         /* may be NULL */
  void* log_user;
  talon_round_fn round; /* may be NULL */
  void* round_user;
} talon_engine_options;

TALON_API talon_status talon_engine_new(const talon_model* model,
                                        const talon_engine_options* options, talon_engine** engine);
TALON_API void talon_engine_free(talon_engine* engine);
/* What drafts for requests that name no method. Lives as long as the engine. */
TALON_API const char* talon_engine_drafter(const talon_engine* engine);
/* Any time, also while another thread steps or runs. Methods stay loaded: the 32 that were asked
 * for last, and those that requests have. Forms stay compiled: the 8 of a model that were asked for
 * last. Compiling one takes seconds at most; a machine too busy for it is TALON_QUEUE_FULL. */
TALON_API talon_status talon_engine_submit(talon_engine* engine, const talon_request* request,
                                           uint64_t* id);
/* One forward for all requests; `news` may be NULL. */
TALON_API talon_status talon_engine_step(talon_engine* engine, talon_news_fn news, void* user);
/* Steps until nothing is left to do. When `cancel`, which may be NULL, is requested, all requests
 * end as cancelled and so does the call. */
TALON_API talon_status talon_engine_run(talon_engine* engine, talon_news_fn news, void* user,
                                        const talon_cancel* cancel);
/* The request ends as cancelled in the next step. Never waits. Unknown ids are ignored. */
TALON_API talon_status talon_engine_cancel(talon_engine* engine, uint64_t id);
/* Requests that run, and those that wait for room; either may be NULL. Both 0: it is idle. */
TALON_API talon_status talon_engine_load(talon_engine* engine, int32_t* running, int32_t* waiting);
/* Of one that waits, runs or ended in the last step. */
TALON_API talon_status talon_engine_statistics(talon_engine* engine, uint64_t id,
                                               talon_statistics* statistics);

/* ---- Makers ---- */

/* Fill `size` bytes. Use the makers below, which know the size. */
TALON_API talon_status talon_model_options_init(talon_model_options* options, size_t size);
TALON_API talon_status talon_text_options_init(talon_text_options* options, size_t size);
TALON_API talon_status talon_request_init(talon_request* request, size_t size);
TALON_API talon_status talon_engine_options_init(talon_engine_options* options, size_t size);

#define TALON_MAKES_DEFAULT(type, maker)         \
  static inline type maker(void) {               \
    type options;                                \
    (void)type##_init(&options, sizeof options); \
    return options;                              \
  }
#define TALON_MAKES_EMPTY(type)           \
  static inline type type##_empty(void) { \
    type output;                          \
    memset(&output, 0, sizeof output);    \
    output.size = sizeof output;          \
    return output;                        \
  }
TALON_MAKES_DEFAULT(talon_model_options, talon_model_default)
TALON_MAKES_DEFAULT(talon_text_options, talon_text_default)
TALON_MAKES_DEFAULT(talon_request, talon_request_default)
TALON_MAKES_DEFAULT(talon_engine_options, talon_engine_default)
TALON_MAKES_EMPTY(talon_model_info)
TALON_MAKES_EMPTY(talon_statistics)

#ifdef __cplusplus
}
#endif

#include "talon/speculator.h" /* speculation alone */

#undef TALON_MAKES_DEFAULT
#undef TALON_MAKES_EMPTY

#endif /* TALON_H */

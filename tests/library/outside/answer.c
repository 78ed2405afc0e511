/* Answers prompts of the command line at once, each drafted by another method, and prints what they
 * say in their order; on stderr what drafts the first. usage: answer MODEL TOKENS PROMPT... */
#include <stdio.h>
#include <stdlib.h>
#include <talon.h>

enum { kMostPrompts = 16 };

typedef struct answer {
  uint64_t id;
  char text[8192];
  size_t bytes;
} answer;

typedef struct answers {
  answer all[kMostPrompts];
  int count;
} answers;

static int hear(void* user, const talon_news* news) {
  answers* heard = user;
  for (int i = 0; i < heard->count; ++i) {
    answer* to = &heard->all[i];
    if (to->id != news->request || to->bytes + news->text_bytes >= sizeof to->text) continue;
    memcpy(to->text + to->bytes, news->text, news->text_bytes);
    to->bytes += news->text_bytes;
  }
  return news->finish == TALON_FINISH_FAILED;
}

static void check(talon_status status) {
  if (status == TALON_OK) return;
  fprintf(stderr, "answer: %s\n", talon_last_error());
  exit(1);
}

static void submit(talon_engine* engine, const talon_model* model, const char* prompt, int max_new,
                   const char* method, answer* to) {
  int32_t* tokens = NULL;
  size_t count = 0;
  check(talon_tokenize(model, prompt, strlen(prompt), NULL, &tokens, &count));
  talon_request request = talon_request_default();
  request.prompt = tokens;
  request.prompt_count = count;
  request.max_new = max_new;
  request.method = method;
  check(talon_engine_submit(engine, &request, &to->id));
  talon_free(tokens);
}

int main(int argc, char** argv) {
  static const char* const methods[] = {NULL, "none", "ngram", "suffix@policy=fixed"};
  static answers heard;
  if (argc < 4 || argc > 3 + kMostPrompts) return 2;
  if (talon_abi_version() != TALON_ABI_VERSION) return 3;
  talon_model* model = NULL;
  check(talon_model_load(argv[1], NULL, &model));
  talon_engine* engine = NULL;
  check(talon_engine_new(model, NULL, &engine));
  talon_model_free(model); /* the engine keeps what it needs */
  check(talon_model_load(argv[1], NULL, &model));
  fprintf(stderr, "%s\n", talon_engine_drafter(engine));
  for (int i = 3; i < argc; ++i) {
    submit(engine, model, argv[i], atoi(argv[2]), methods[i % 4], &heard.all[heard.count]);
    ++heard.count;
  }
  check(talon_engine_run(engine, hear, &heard, NULL));
  for (int i = 0; i < heard.count; ++i) printf("%s\n", heard.all[i].text);
  talon_engine_free(engine);
  talon_model_free(model);
  return 0;
}

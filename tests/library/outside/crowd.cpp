// Several threads of a C++ program on one engine: every answer to one prompt is the same. usage:
// crowd MODEL PROMPT
#include <talon/speculator.h>  // brings talon.h

#include <atomic>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(talon_status status) {
  if (status != TALON_OK) throw std::runtime_error(talon_last_error());
}

struct Heard {
  std::map<std::uint64_t, std::string> texts;
  int ended = 0;
};

int hear(void* user, const talon_news* news) {
  auto& heard = *static_cast<Heard*>(user);
  heard.texts[news->request].append(news->text, news->text_bytes);
  if (news->finish != TALON_FINISH_NONE) ++heard.ended;
  return 0;
}

void submit(talon_engine* engine, const talon_model* model, const std::string& prompt) {
  std::int32_t* tokens = nullptr;
  std::size_t count = 0;
  check(talon_tokenize(model, prompt.data(), prompt.size(), nullptr, &tokens, &count));
  talon_request request = talon_request_default();
  request.prompt = tokens;
  request.prompt_count = count;
  request.max_new = 50;
  request.temperature = 0.8;
  check(talon_engine_submit(engine, &request, nullptr));
  talon_free(tokens);
}

int run(const char* path, const std::string& prompt) {
  talon_model* model = nullptr;
  check(talon_model_load(path, nullptr, &model));
  talon_engine* engine = nullptr;
  check(talon_engine_new(model, nullptr, &engine));
  constexpr int kThreads = 4, kEach = 5;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) submit(engine, model, prompt);
    });
  Heard heard;
  while (heard.ended < kThreads * kEach) check(talon_engine_run(engine, hear, &heard, nullptr));
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, text] : heard.texts) {
    if (text != heard.texts.begin()->second || text.empty())
      throw std::runtime_error("answers differ");
  }
  std::printf("%d answers, one text\n", heard.ended);
  talon_engine_free(engine);
  talon_model_free(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return argc == 3 ? run(argv[1], argv[2]) : 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "crowd: %s\n", error.what());
  return 1;
}

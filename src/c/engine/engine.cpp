#include "c/defaults.h"
#include "c/engine/engine_handle.h"
#include "c/engine/news.h"
#include "c/request.h"
#include "c/structs.h"

using namespace talon;

namespace {

talon_engine& engine_of(talon_engine* engine) {
  return require_pointer(engine, "engine", "an engine");
}

}  // namespace

talon_status talon_engine_new(const talon_model* model, const talon_engine_options* options,
                              talon_engine** engine) {
  return guarded(__func__, [&] {
    auto*& out = require_pointer(engine, "engine", "an address to fill");
    out = nullptr;
    const auto& shared = require_pointer(model, "model", "a model").shared;
    out = new talon_engine(shared, read_struct(options, default_engine_options(), "options"));
  });
}

void talon_engine_free(talon_engine* engine) { delete engine; }

const char* talon_engine_drafter(const talon_engine* engine) {
  return engine ? engine->drafter().c_str() : "";
}

talon_status talon_engine_submit(talon_engine* engine, const talon_request* request, uint64_t* id) {
  return guarded(__func__, [&] {
    talon_engine& by = engine_of(engine);
    const talon_request known = read_request(request);
    const std::uint64_t given = by.submit(known);
    if (id) *id = given;
  });
}

talon_status talon_engine_step(talon_engine* engine, talon_news_fn news, void* user) {
  return guarded(__func__, [&] { engine_of(engine).step(news, user); });
}

talon_status talon_engine_run(talon_engine* engine, talon_news_fn news, void* user,
                              const talon_cancel* cancel) {
  return guarded(__func__, [&] { engine_of(engine).run(news, user, cancel); });
}

talon_status talon_engine_cancel(talon_engine* engine, uint64_t id) {
  return guarded(__func__, [&] { engine_of(engine).cancel(id); });
}

talon_status talon_engine_load(talon_engine* engine, int32_t* running, int32_t* waiting) {
  return guarded(__func__, [&] {
    const EngineLoad load = engine_of(engine).load();
    if (running) *running = load.running;
    if (waiting) *waiting = load.waiting;
  });
}

talon_status talon_engine_statistics(talon_engine* engine, uint64_t id,
                                     talon_statistics* statistics) {
  return guarded(__func__, [&] {
    talon_engine& by = engine_of(engine);
    require_pointer(statistics, "statistics", "a struct to fill");
    write_struct(statistics, by.statistics(id), "statistics");
  });
}

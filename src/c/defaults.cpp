#include "c/defaults.h"

#include <limits>

#include "c/structs.h"
#include "engine/engine.h"

namespace talon {

talon_model_options default_model_options() {
  talon_model_options options = {};
  options.size = sizeof options;
  return options;
}

talon_text_options default_text_options() {
  talon_text_options options = {};
  options.size = sizeof options;
  options.parse_special = 1;
  options.add_start = 1;
  options.skip_special = 1;
  options.add_generation_prompt = 1;
  return options;
}

talon_request default_request() {
  const Request usual;
  talon_request request = {};
  request.size = sizeof request;
  request.max_new = usual.max_new;
  request.seed = usual.seed;
  request.temperature = usual.sampler.temperature;
  request.top_p = usual.sampler.top_p;
  request.typical_p = usual.sampler.typical_p;
  request.repetition_penalty = usual.sampler.repetition_penalty;
  request.reuse_prefix = 1;
  request.logprobs = usual.logprobs;
  return request;
}

talon_engine_options default_engine_options() {
  const EngineOptions usual;
  talon_engine_options options = {};
  options.size = sizeof options;
  options.chunk = usual.chunk;
  options.max_nodes = usual.max_nodes;
  options.most_waiting = std::numeric_limits<int>::max();
  return options;
}

talon_speculator_options default_speculator_options() {
  talon_speculator_options options = {};
  options.size = sizeof options;
  return options;
}

}  // namespace talon

using namespace talon;

talon_status talon_model_options_init(talon_model_options* options, size_t size) {
  return guarded(__func__, [&] { init_struct(options, size, default_model_options()); });
}

talon_status talon_text_options_init(talon_text_options* options, size_t size) {
  return guarded(__func__, [&] { init_struct(options, size, default_text_options()); });
}

talon_status talon_request_init(talon_request* request, size_t size) {
  return guarded(__func__, [&] { init_struct(request, size, default_request()); });
}

talon_status talon_engine_options_init(talon_engine_options* options, size_t size) {
  return guarded(__func__, [&] { init_struct(options, size, default_engine_options()); });
}

talon_status talon_speculator_options_init(talon_speculator_options* options, size_t size) {
  return guarded(__func__, [&] { init_struct(options, size, default_speculator_options()); });
}

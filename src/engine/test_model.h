#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "engine/engine.h"
#include "io/checkpoint.h"
#include "model/cache/kv_cache.h"
#include "model/model.h"
#include "tree/policy_registry.h"

namespace talon::test {

/// A model on a backend of its own.
struct TestModel {
  TestModel(const std::filesystem::path& path, std::unique_ptr<Backend> on, int context = 0,
            WeightLayout weights = WeightLayout::as_stored)
      : backend(std::move(on)),
        checkpoint(open_checkpoint(path)),
        model(load_model(checkpoint, *backend, options(context, weights))) {}

  static LoadOptions options(int context, WeightLayout weights) {
    LoadOptions result;
    result.context = context;
    result.layout = weights;
    return result;
  }
  int vocabulary() const { return model.config.vocabulary; }

  std::unique_ptr<Backend> backend;
  Checkpoint checkpoint;
  Model model;
};

/// All that came of one request.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;
  std::string error;
  FinishReason finish = FinishReason::none;
  SequenceStatistics statistics;
};

struct TestOptions : EngineOptions {
  std::string policy = "throughput";
  CostProfile costs;
};

/// An engine with what it borrows, and one method.
struct TestEngine {
  TestEngine(TestModel& of, std::unique_ptr<Drafter> with, TestOptions options = {}, int pages = 64,
             std::shared_ptr<const Verifier> rule = make_verifier("follow"))
      : TestEngine(of, std::move(with), std::move(options), kv_shape(of.model.config, pages),
                   std::move(rule)) {}
  TestEngine(TestModel& of, std::unique_ptr<Drafter> with, TestOptions options,
             const KvShape& shape, std::shared_ptr<const Verifier> rule = make_verifier("follow"))
      : cache(*of.backend, shape), drafter(std::move(with)), engine(of.model, cache, options) {
    engine.add({drafter, make_policy(options.policy, {of.model.config.hidden}), std::move(rule),
                options.costs});
  }

  SequenceId submit(const Request& request) {
    auto result = engine.submit(request);
    if (const auto* refusal = std::get_if<Refusal>(&result))
      throw std::runtime_error(refusal->message);
    return std::get<SequenceId>(result);
  }

  /// Runs all requests together until they have ended; request i is submitted before step i *
  /// `apart`.
  std::vector<Answer> run(const std::vector<Request>& requests, std::size_t apart = 0) {
    std::vector<Answer> answers(requests.size());
    std::vector<SequenceId> ids;
    for (std::size_t step = 0; ids.size() < requests.size() || !engine.idle(); ++step) {
      while (ids.size() < requests.size() && step >= ids.size() * apart)
        ids.push_back(submit(requests[ids.size()]));
      for (const Progress& progress : engine.step()) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (ids[i] == progress.sequence) note(progress, answers[i]);
        }
      }
    }
    return answers;
  }
  Answer run(const Request& request) { return run(std::vector<Request>{request}).front(); }

  void note(const Progress& progress, Answer& answer) {
    answer.tokens.insert(answer.tokens.end(), progress.tokens.begin(), progress.tokens.end());
    answer.text += progress.text;
    answer.error = progress.error;
    answer.finish = progress.finish;
    if (progress.finish != FinishReason::none)
      answer.statistics = engine.statistics(progress.sequence);
  }

  KvCache cache;
  std::shared_ptr<Drafter> drafter;
  Engine engine;
};

}  // namespace talon::test

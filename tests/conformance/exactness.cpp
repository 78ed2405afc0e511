#include "exactness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "covering.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "tree/policies/test_files.h"
#include "tree/policy_registry.h"
#include "verify/verifier.h"

namespace talon::test {
namespace {

constexpr std::uint64_t kSeed = 20240607;

struct NamedDrafter {
  std::string name;
  std::function<std::unique_ptr<Drafter>(const Model&)> make;
};

/// One way to run requests.
struct Setting {
  std::string drafter = "none";
  std::string policy = "fixed";
  std::string rule = "follow";
  int chunk = 1024;
  int threads = 1;
  bool companions = false;
  bool leaves = false;  // its rows to later cases
  bool reuse = false;

  std::string describe() const {
    return fmt::format("{} {} {} chunk {} threads {}{}{}", drafter, policy, rule, chunk, threads,
                       companions ? " with companions" : "", reuse ? " reusing a prefix" : "");
  }
};

class ExactnessCheck {
 public:
  ExactnessCheck(const ExactnessPlan& plan, const ExactnessProgress& progress)
      : plan_(plan), progress_(progress) {
    expects(plan.prompts.size() >= 3, "a prompt and two companions");
    for (const int threads : plan.threads) {
      models_[threads] = std::make_unique<TestModel>(plan.model, plan.make_backend(threads));
    }
    if (plan.make_tokenizer) tokenizer_ = plan.make_tokenizer();
    if (plan.grammars.empty()) return;
    expects(plan.grammars.size() == plan.samplers.size(), "a grammar for each sampler");
    const GrammarCompiler compiler(*tokenizer_, models_.begin()->second->vocabulary());
    for (const GrammarText& text : plan.grammars) constraints_.push_back(compiler.compile(text));
  }

  ExactnessReport run() {
    for (std::size_t sampler = 0; sampler < plan_.samplers.size(); ++sampler) {
      decode_plainly(sampler);
      const std::vector<NamedDrafter> drafters = drafters_for_texts();
      if (situations_.empty()) situations_ = situations(drafters.size());
      check_sampler(sampler, drafters);
    }
    for (auto& [name, tokens] : emitted_)
      report_.tau[name] = static_cast<double>(tokens) / rounds_[name];
    return std::move(report_);
  }

 private:
  Request request(std::size_t prompt, std::size_t sampler) const {
    Request result;
    result.prompt = plan_.prompts[prompt];
    result.max_new = plan_.max_new;
    result.sampler = plan_.samplers[sampler];
    result.seed = kSeed + prompt;
    result.reuse_prefix = false;
    result.stop_texts = plan_.stop_texts;
    result.end_tokens = plan_.end_tokens;
    if (!constraints_.empty()) result.constraint = constraints_[sampler];
    return result;
  }

  void decode_plainly(std::size_t sampler) {
    TestEngine engine(*models_.begin()->second, make_drafter("none", {}), options({}), kPages);
    expected_.clear();
    for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
      const Answer answer = engine.run(request(prompt, sampler));
      if (!answer.error.empty()) throw Error(answer.error);
      expected_.push_back(answer.tokens);
    }
  }

  static NamedDrafter named(const std::string& name, const std::string& text) {
    return {name, [text](const Model& model) { return make_drafter(text, {.target = &model}); }};
  }

  /// The option that names what a drafter is made with.
  static std::string_view key_of(const DrafterEntry& entry) {
    return has_option(entry, "model") ? "model" : "head";
  }
  static bool has_option(const DrafterEntry& entry, std::string_view name) {
    return std::ranges::any_of(entry.options,
                               [&](const Option& option) { return option.name == name; });
  }

  /// Every drafter of the table, with sinks where it has them; if asked for, each joined with
  /// ngram, and all of them joined.
  std::vector<NamedDrafter> drafters_of_table() {
    std::vector<NamedDrafter> all;
    std::string every_name, every_text;
    for (const DrafterEntry& entry : drafters()) {
      const bool wanted = plan_.drafters.empty() ||
                          std::find(plan_.drafters.begin(), plan_.drafters.end(), entry.name) !=
                              plan_.drafters.end();
      const auto head = wanted ? head_for(entry) : std::nullopt;
      if (!head) continue;
      const std::string name(entry.name);
      const std::string text =
          head->empty() ? name : fmt::format("{}:{}={}", name, key_of(entry), *head);
      all.push_back(named(name, text));
      if (has_option(entry, "sinks"))
        all.push_back(named(name + " with sinks", text + ",window=5,sinks=2"));
      const bool joins =
          name != "none" && !named(name, text).make(models_.begin()->second->model)->traits().draws;
      if (!plan_.merged || !joins) continue;
      if (name != "ngram") all.push_back(named(name + "+ngram", text + "+ngram"));
      every_name += every_name.empty() ? name : "+" + name;
      every_text += every_text.empty() ? text : "+" + text;
    }
    if (plan_.merged) all.push_back(named(every_name, every_text));
    return all;
  }

  std::vector<NamedDrafter> drafters_for_texts() {
    std::vector<NamedDrafter> all = drafters_of_table();
    std::vector<std::vector<TokenId>> texts = plan_.prompts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i].insert(texts[i].end(), expected_[i].begin(), expected_[i].end());
    }
    for (const double hit : plan_.hits) {
      all.push_back({fmt::format("random-tree:hit={}", hit), [texts, hit](const Model& model) {
                       return make_random_tree_drafter(
                           {.hit = hit, .vocabulary = model.config.vocabulary}, texts);
                     }});
    }
    all.push_back({"random-tree:probes=0.3", [texts](const Model& model) {
                     return make_random_tree_drafter(
                         {.hit = 0.8, .probes = 0.3, .vocabulary = model.config.vocabulary}, texts);
                   }});
    return all;
  }

  /// The head to make a drafter with, "" if it needs none, nothing if it cannot be made.
  std::optional<std::string> head_for(const DrafterEntry& entry) {
    if (!entry.needs_head) return "";
    std::string reason = "no draft head here";
    for (const auto& head : plan_.heads) {
      try {
        make_drafter(entry.name,
                     {.target = &models_.begin()->second->model, .head = head.string()});
        return head.string();
      } catch (const Error& error) {
        reason = error.what();
      }
    }
    const std::string line = fmt::format("{}: {}", entry.name, reason);
    if (std::find(report_.skipped.begin(), report_.skipped.end(), line) == report_.skipped.end()) {
      report_.skipped.push_back(line);
    }
    return std::nullopt;
  }

  TestOptions options(const Setting& setting) const {
    TestOptions result;
    if (tokenizer_) result.tokenizer = &*tokenizer_;
    result.chunk = setting.chunk;
    result.policy = setting.policy;
    return result;
  }

  /// An index into each list of the plan.
  struct Situation {
    std::size_t sampler, drafter, policy, rule, threads, chunk, companions, reuse, prompt;

    auto part() const { return std::tie(sampler, drafter, policy, rule); }
    auto engine() const { return std::tie(sampler, drafter, policy, rule, threads, chunk); }
  };

  /// In the order of part() and engine().
  std::vector<Situation> situations(std::size_t drafter_count) const {
    std::vector<Situation> result;
    for (const auto& row : covering_rows(
             {plan_.samplers.size(), drafter_count, plan_.policies.size(), plan_.rules.size(),
              plan_.threads.size(), plan_.chunks.size(), plan_.with_companions.size(),
              plan_.with_reuse.size(), plan_.prompts.size()},
             plan_.strength)) {
      static_assert(sizeof(Situation) == ExactnessPlan::kAxes * sizeof(std::size_t));
      result.push_back({row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8]});
    }
    return result;
  }

  void check_sampler(std::size_t sampler, const std::vector<NamedDrafter>& drafters) {
    const auto next_part = [](auto from, auto end) {
      return std::find_if(from, end, [&](const Situation& s) { return s.part() != from->part(); });
    };
    auto from = situations_.begin();
    for (auto end = situations_.end(); from != end;) {
      const auto to = next_part(from, end);
      if (from->sampler == sampler) check_part({from, to}, drafters[from->drafter]);
      from = to;
    }
  }

  /// `part`: the situations of one sampler, drafter, policy and rule.
  void check_part(std::span<const Situation> part, const NamedDrafter& drafter) {
    const Situation& first = part.front();
    const std::string& policy = plan_.policies[first.policy];
    const std::string& rule = plan_.rules[first.rule];
    const std::string name =
        fmt::format("sampler {}, {}, {}, {}", first.sampler, drafter.name, policy, rule);
    if (plan_.is_done && plan_.is_done(name)) return;
    while (!part.empty()) {
      const auto other = std::find_if(part.begin(), part.end(), [&](const Situation& situation) {
        return situation.engine() != part.front().engine();
      });
      const auto count = static_cast<std::size_t>(other - part.begin());
      check_engine(part.first(count), drafter, {.policy = policy, .rule = rule});
      part = part.subspan(count);
    }
    if (progress_) progress_(name, report_);
  }

  /// `cases`: those that one engine runs, one after the other.
  void check_engine(std::span<const Situation> cases, const NamedDrafter& drafter,
                    Setting setting) {
    setting.drafter = drafter.name;
    setting.chunk = plan_.chunks[cases.front().chunk];
    setting.threads = plan_.threads[cases.front().threads];
    TestModel& model = *models_[setting.threads];
    TestEngine engine(model, drafter.make(model.model), options(setting), kPages,
                      make_verifier(setting.rule));
    for (const Situation& situation : cases) {
      setting.companions = plan_.with_companions[situation.companions];
      setting.leaves = plan_.with_reuse[situation.reuse];
      setting.reuse = false;
      check_case(engine, setting, situation.prompt, situation.sampler);
      if (!setting.leaves) continue;
      setting.reuse = true;
      check_case(engine, setting, situation.prompt, situation.sampler);
    }
  }

  /// A reused prefix is the prompt with the first part of the answer, as the case before left it in
  /// the cache; where that one drafted, rows that were checked in a tree are reused.
  void check_case(TestEngine& engine, const Setting& setting, std::size_t prompt,
                  std::size_t sampler) {
    Request asked = request(prompt, sampler);
    asked.reuse_prefix = setting.leaves;
    std::span<const TokenId> expected = expected_[prompt];
    if (setting.reuse) {
      const std::size_t known = expected.size() / 2;
      asked.prompt.insert(asked.prompt.end(), expected.begin(),
                          expected.begin() + static_cast<std::ptrdiff_t>(known));
      asked.max_new -= static_cast<int>(known);
      expected = expected.subspan(known);
    }
    std::vector<Request> requests = {asked};
    if (setting.companions) {
      const std::size_t count = plan_.prompts.size();
      requests.insert(requests.begin(), request((prompt + 1) % count, sampler));
      requests.push_back(request((prompt + 2) % count, sampler));
    }
    const std::vector<Answer> answers = engine.run(requests, setting.companions ? 2 : 0);
    const Answer& answer = answers[setting.companions ? 1 : 0];

    ++report_.cases;
    report_.tokens += static_cast<long>(answer.tokens.size());
    const std::string name = setting.drafter + " " + setting.policy;
    emitted_[name] += static_cast<long>(answer.tokens.size()) - 1;
    rounds_[name] += answer.statistics.rounds;
    const bool may_reuse = engine.drafter->taps().empty() && policy_taps(setting.policy).empty();
    if (setting.reuse && may_reuse && answer.statistics.reused_tokens == 0) {
      report_.differences.push_back(setting.describe() + ": nothing was reused");
    }
    if (!std::equal(answer.tokens.begin(), answer.tokens.end(), expected.begin(), expected.end())) {
      report_.differences.push_back(fmt::format("{} sampler {} prompt {}: expected {}, found {} {}",
                                                setting.describe(), sampler, prompt, expected,
                                                answer.tokens, answer.error));
    }
  }

  static constexpr int kPages = 64;
  const ExactnessPlan& plan_;
  const ExactnessProgress& progress_;
  std::optional<Tokenizer> tokenizer_;                                // for stop texts and grammars
  std::vector<std::shared_ptr<const ConstraintSource>> constraints_;  // by sampler
  std::map<int, std::unique_ptr<TestModel>> models_;                  // by threads
  std::vector<Situation> situations_;
  std::vector<std::vector<TokenId>> expected_;  // per prompt, of the current sampler
  ExactnessReport report_;
  std::map<std::string, long> emitted_;
  std::map<std::string, int> rounds_;
};

}  // namespace

std::vector<SamplerOptions> standard_samplers() {
  return {{}, {.temperature = 0.3}, {.temperature = 0.7}, {.temperature = 1}, {.temperature = 1.5}};
}

std::vector<std::string> lossless_rules() {
  std::vector<std::string> names;
  for (const VerifierEntry& entry : verifiers()) {
    if (make_verifier(entry.name)->lossless()) names.emplace_back(entry.name);
  }
  return names;
}

std::vector<std::string> all_policies() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : policies()) names.push_back(policy_text(entry));
  return names;
}

ExactnessReport check_exactness(const ExactnessPlan& plan, const ExactnessProgress& progress) {
  return ExactnessCheck(plan, progress).run();
}

}  // namespace talon::test

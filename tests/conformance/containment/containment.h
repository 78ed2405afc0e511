#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "faulty_allocations.h"
#include "faulty_backend.h"
#include "models.h"
#include "text/tokenizer.h"

namespace talon::test {

const Tokenizer& small_tokenizer();
/// A text of so many tokens, or more with `end`.
std::vector<TokenId> long_prompt(std::size_t tokens, std::initializer_list<TokenId> end);
Request asking(std::vector<TokenId> prompt, int max_new, double temperature = 0);

struct Setting {
  /// "knowing": trees that hold the answers, "unknown" and "unknown drawn": what is no token
  /// (UnknownTokens); others as make_drafter() reads them.
  std::string drafter = "knowing";
  std::string policy = "fixed";
  std::string rule = "follow";
};

/// One component throws at its nth call, for every n; whatever happens then, no answer may hold a
/// token that plain decoding would not have given: not the ones under way, not later ones in the
/// same engine, not those of a new engine on the same cache. As leveldb's fault injection.
class Containment : public testing::Test {
 protected:
  /// Holds the model, and first asks two that share a page, a drawn one with a stop text that never
  /// comes, and one that comes last and begins as the first; a model of pictures nothing.
  explicit Containment(const std::filesystem::path& model = kStories260k);

  /// The model anew, on a backend of so many workers that have no memory of their own yet.
  void load(int threads);
  /// Other requests; the tokens of texts may be those of a larger vocabulary. Later ones begin with
  /// texts and their answers, or are the same pictures.
  void ask(std::vector<Request> requests);
  /// What the first of them, and every other one after it, must look like.
  void constrain(const std::shared_ptr<const ConstraintSource>& grammar);
  /// Runs the requests in an engine that meets the fault, then later ones, there and in a new
  /// engine on the same cache. Whether the fault came.
  bool run(const Setting& setting, Trigger& trigger, long at, bool lasts);
  /// For every n.
  void sweep(const Setting& setting, Trigger& trigger, bool lasts);

  /// Every other of the later requests, from `first` on, has its plain answer.
  void expect_later(Engine& engine, std::size_t first) const;

  FaultyBackend* backend_;
  std::unique_ptr<TestModel> model_;
  std::vector<Request> requests_, later_;
  std::vector<Answer> plain_, plain_later_;
  Trigger trigger_;
  int pages_ = 16;
  int chunk_ = 24;
  bool may_fail_ = true;           // answers under way, or those of them that have a grammar
  bool backend_may_fail_ = false;  // a whole step with it
  bool faulty_drafter_ = false, faulty_rule_ = false, faulty_policy_ = false;
  RoundObserver observer_;
  CommitListener* listener_ = nullptr;
  const Tokenizer* tokenizer_ = &small_tokenizer();
  Timekeeper timekeeper_;
  int preemptions_ = 0;  // of all runs

 private:
  Answer answer_plainly(Request request);
  std::unique_ptr<Drafter> make(const Setting& setting);
  std::vector<Answer> answers_of(TestEngine& test, MethodId method);
  void expect_answer(const Answer& answer, std::size_t i) const;
  bool has_grammar() const;

  std::filesystem::path path_;  // of the model
};

}  // namespace talon::test

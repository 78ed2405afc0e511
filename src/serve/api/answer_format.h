#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/api/answer_fields.h"
#include "serve/api/api_error.h"
#include "serve/api/round_trace.h"
#include "serve/served_model.h"
#include "serve/work_queue.h"

namespace talon {

/// What is new of one of the answers to a request.
struct ChoiceNews {
  int choice = 0;
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<int> step_tokens;  // how many each step brought
  std::vector<TokenLogprobs> logprobs;
  std::vector<RoundTrace> rounds;  // if the request asks to see them
  int reused_tokens = 0;           // of the prompt, which the cache had
  FinishReason finish = FinishReason::none;
  std::string error;  // when it failed
};

/// One answer, as far as it goes.
struct ChoiceResult : ChoiceNews {
  SequenceStatistics statistics;  // once it has ended
};

/// What every piece of an answer says of the request it belongs to.
struct AnswerHead {
  std::string id;
  long created = 0;
  const ServedModel* model = nullptr;
  AnswerFields fields;
  Json asked;  // fields of the request that its answer repeats, if any
  std::string drafter;
  std::vector<std::vector<TokenId>> prompts;  // choice i answers prompt i / fields.choices
};

/// The answers of a request, each taken apart as it comes.
class ChoiceReaders {
 public:
  explicit ChoiceReaders(AnswerStyle style) : style_(style) {}
  /// What is new of one, all if it has ended.
  AnswerReader::Parts read(const ChoiceNews& news);
  /// A whole one, and the parts of it in their order.
  ReadAnswer whole(const ChoiceResult& choice) const { return joined(parts(choice)); }
  AnswerReader::Parts parts(const ChoiceResult& choice) const;

 private:
  AnswerStyle style_;
  std::map<int, std::unique_ptr<AnswerReader>> readers_;
};

/// How answers look on one path. One per request; called on the server's thread, or for what takes
/// long by workers, never on both at once.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// Where whole(), piece() and end() are made, one after the other, if they take long; null: on
  /// the server's thread.
  virtual WorkQueue* workshop() { return nullptr; }
  /// The body of a whole answer. Throws ApiError for one that cannot be had.
  virtual std::string whole(const std::vector<ChoiceResult>& choices) = 0;

  // A stream, as server-sent events:
  virtual std::string begin() = 0;
  virtual std::string piece(const ChoiceNews& news) = 0;
  virtual std::string end(const std::vector<ChoiceResult>& choices) = 0;
  virtual std::string failure(const ApiError& error);
  /// A sign of life that readers pass over. On the server's thread, at any time.
  virtual std::string ping() const { return ":\n\n"; }
  virtual HttpResponse refusal(const ApiError& error) { return error_response(error); }
};

/// `data: JSON` and an empty line.
std::string event(const Json& json);

}  // namespace talon

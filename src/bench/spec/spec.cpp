#include "bench/spec/spec.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "text/prompt.h"

namespace talon {
namespace {

using Turns = std::vector<std::vector<TokenId>>;

double per_second(int tokens, double ms) { return ms > 0 ? tokens / ms * 1000 : 0; }

}  // namespace

/// One question with one temperature and seed.
struct SpecBench::Condition {
  const Question* question;
  double temperature;
  std::uint64_t seed;
  std::size_t turn;  // of the rotating order
};

/// One contestant's answers to one question, all repeats.
struct SpecBench::Answers {
  SpecCell cell;
  std::vector<Turns> tokens;  // per repeat

  void add(const Turns& turns, const TurnAnswer& sums) {
    tokens.push_back(turns);
    int count = 0, decoded = 0;
    for (const std::vector<TokenId>& turn : turns) {
      count += static_cast<int>(turn.size());
      decoded += std::max(0, static_cast<int>(turn.size()) - 1);  // the prefill's token aside
    }
    cell.new_tokens = count;
    cell.tok_s.push_back(per_second(decoded, sums.decode_ms));
    cell.wall_tok_s.push_back(per_second(count, sums.prefill_ms + sums.decode_ms));
    cell.prefill_ms += sums.prefill_ms;
    cell.decode_ms += sums.decode_ms;
    cell.draft_ms += sums.draft_ms;
    cell.check_ms += sums.check_ms;
    cell.rounds.add(sums.rounds);
  }
};

SpecBench::SpecBench(const SpecPrompts& prompts, const Contestants& contestants,
                     SpecSettings settings, const StopFlag* stop)
    : prompts_(prompts), contestants_(contestants), settings_(std::move(settings)), stop_(stop) {
  expects(!contestants_.empty(), "plain decoding as the first contestant");
}

void SpecBench::warm_up(const Question& question) {
  const Condition condition{&question, settings_.temperatures.front(), settings_.seeds.front(), 0};
  for (int i = 0; i < settings_.warm_up; ++i) {
    for (const auto& contestant : contestants_) {
      Answers ignored;
      if (!stopped()) answer(*contestant, condition, ignored);
    }
  }
}

bool SpecBench::run(const std::vector<Question>& questions, const Events& events) {
  const std::vector<Condition> todo = conditions(questions, events);
  const auto repeats = static_cast<std::size_t>(settings_.repeats);
  const std::size_t per_condition = contestants_.size() * repeats;
  for (std::size_t c = 0; c < todo.size(); ++c) {
    const Condition& condition = todo[c];
    std::vector<Answers> answers(contestants_.size());
    bool fits = true;
    for (std::size_t i = 0; i < per_condition && fits; ++i) {
      const std::size_t repeat = i / contestants_.size();
      const std::size_t who = (i + repeat + condition.turn) % contestants_.size();
      fits = answer(*contestants_[who], condition, answers[who]);
      if (stopped()) return false;
      if (events.progress) events.progress(c * per_condition + i + 1, todo.size() * per_condition);
    }
    if (fits) {
      events.answered(cells_of(condition, answers));
    } else {
      events.skipped(
          *condition.question,
          fmt::format("prompt and answer exceed the context of {} tokens", prompts_.context));
    }
  }
  return true;
}

std::vector<SpecBench::Condition> SpecBench::conditions(const std::vector<Question>& questions,
                                                        const Events& events) const {
  std::vector<Condition> todo;
  std::size_t turn = 0;
  for (const Question& question : questions) {
    for (const double temperature : settings_.temperatures) {
      for (const std::uint64_t seed : settings_.seeds) {
        if (temperature == 0 && seed != settings_.seeds.front()) continue;
        SpecCell cell;
        cell.question_id = question.id;
        cell.category = question.category;
        cell.temperature = temperature;
        cell.seed = seed;
        const std::size_t place = turn++;
        if (events.is_done && events.is_done(condition_of(cell))) continue;
        todo.push_back({&question, temperature, seed, place});
      }
    }
  }
  return todo;
}

std::vector<TokenId> SpecBench::prompt_of(const std::vector<ChatMessage>& messages) const {
  if (prompts_.chat_template) {
    return encode_chat(prompts_.tokenizer, *prompts_.chat_template, messages).tokens;
  }
  std::string text;
  for (const ChatMessage& message : messages) text += message.content + "\n";
  return encode_prompt(prompts_.tokenizer, text, 0, /*parse_special=*/false);
}

/// Adds one repeat, or the reason why there is none. False if some turn leaves no room for an
/// answer.
bool SpecBench::answer(Contestant& contestant, const Condition& condition, Answers& answers) const {
  std::vector<ChatMessage> messages;
  Turns tokens;
  TurnAnswer sums;
  int prompt_tokens = 0;
  try {
    for (const std::string& text : condition.question->turns) {
      messages.push_back({"user", text});
      Request request;
      request.prompt = prompt_of(messages);
      prompt_tokens += static_cast<int>(request.prompt.size());
      request.max_new = settings_.max_new;
      request.sampler = settings_.sampler;
      request.sampler.temperature = condition.temperature;
      request.seed = condition.seed;
      request.end_tokens = prompts_.end_tokens;
      request.reuse_prefix = false;
      if (static_cast<int>(request.prompt.size()) + request.max_new > prompts_.context)
        return false;
      TurnAnswer turn = contestant.answer(request, stop_);
      messages.push_back({"assistant", turn.text});
      sums.prefill_ms += turn.prefill_ms;
      sums.decode_ms += turn.decode_ms;
      sums.draft_ms += turn.draft_ms;
      sums.check_ms += turn.check_ms;
      sums.rounds.add(turn.rounds);
      tokens.push_back(std::move(turn.tokens));
    }
    answers.cell.prompt_tokens = prompt_tokens;
    answers.add(tokens, sums);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    answers.cell.error = error.what();
  }
  return true;
}

std::vector<SpecCell> SpecBench::cells_of(const Condition& condition,
                                          const std::vector<Answers>& answers) const {
  std::vector<SpecCell> cells;
  const std::vector<Turns>& plain = answers.front().tokens;
  for (std::size_t who = 0; who < answers.size(); ++who) {
    SpecCell cell = answers[who].cell;
    cell.question_id = condition.question->id;
    cell.category = condition.question->category;
    cell.method = contestants_[who]->name();
    cell.temperature = condition.temperature;
    cell.seed = condition.seed;
    cell.claims_equal = contestants_[who]->claims_same_tokens();
    cell.equal =
        !plain.empty() && std::all_of(answers[who].tokens.begin(), answers[who].tokens.end(),
                                      [&](const Turns& turns) { return turns == plain.front(); });
    for (double* ms : {&cell.prefill_ms, &cell.decode_ms, &cell.draft_ms, &cell.check_ms})
      *ms /= settings_.repeats;
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace talon

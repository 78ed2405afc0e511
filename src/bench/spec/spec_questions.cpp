#include "bench/spec/spec_questions.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "core/error.h"
#include "io/json_text.h"

namespace talon {
namespace {

Question parse_question(const std::string& text, const std::string& doing, int line) {
  const Json json = parse_json(text, doing);
  if (!json.is_object()) fail("{}: expected a JSON object", doing);
  const auto turns = json.find("turns");
  if (turns == json.end() || !turns->is_array() || turns->empty())
    fail("{}: field \"turns\": expected a list with at least one text", doing);
  Question question;
  question.id = json.value("question_id", Json(line));
  if (!question.id.is_string() && !question.id.is_number_integer())
    fail("{}: field \"question_id\": expected a whole number or a text", doing);
  if (const auto category = json.find("category"); category != json.end()) {
    if (!category->is_string()) fail("{}: field \"category\": expected a text", doing);
    question.category = *category;
  }
  for (const Json& turn : *turns) {
    if (!turn.is_string()) fail("{}: field \"turns\": expected texts only", doing);
    question.turns.push_back(turn);
  }
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::string& source) {
  const std::size_t equals = source.find('=');
  std::error_code problem;  // what cannot be looked at cannot be opened below
  const bool is_file = std::filesystem::exists(source, problem) || problem;
  const bool is_named = equals != source.npos && !is_file;
  const std::filesystem::path file = is_named ? source.substr(equals + 1) : source;
  if (std::filesystem::is_directory(file, problem))
    fail("read questions {}: expected a file, found a folder", file.string());
  errno = 0;
  std::ifstream input(file);
  if (!input) fail("read questions {}: {}", file.string(), std::strerror(errno));
  std::vector<Question> questions;
  int line = 0;
  for (std::string text; std::getline(input, text);) {
    ++line;
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const std::string from = fmt::format("{}, line {}", file.string(), line);
    questions.push_back(parse_question(text, "read questions " + from, line));
    questions.back().from = from;
    if (is_named) questions.back().category = source.substr(0, equals);
  }
  if (questions.empty())
    fail("read questions {}: expected at least one, found none", file.string());
  return questions;
}

void require_different(const std::vector<Question>& questions) {
  std::map<std::pair<std::string, std::string>, const Question*> known;
  for (const Question& question : questions) {
    const auto [before, is_new] =
        known.try_emplace({question.id.dump(), question.category}, &question);
    if (is_new) continue;
    fail(
        "read questions {}: \"question_id\": expected another than {} of {}, with the same "
        "category",
        question.from, question.id.dump(), before->second->from);
  }
}

std::vector<Question> select_questions(std::vector<Question> questions,
                                       const QuestionChoice& choice) {
  const std::string& category = choice.category;
  std::map<std::string, int> taken;  // by subtask
  std::erase_if(questions, [&](const Question& question) {
    const std::string subtask = subtask_of(question.category);
    if (!category.empty() && question.category != category && subtask != category) return true;
    return choice.per_category > 0 && ++taken[subtask] > choice.per_category;
  });
  if (questions.empty()) fail("read questions: expected some of category {}, found none", category);
  if (choice.limit > 0 && static_cast<std::size_t>(choice.limit) < questions.size())
    questions.resize(static_cast<std::size_t>(choice.limit));
  return questions;
}

std::string subtask_of(std::string_view category) {
  static constexpr std::array<std::string_view, 8> kMultiTurn = {
      "writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"};
  const bool is_multi_turn =
      std::find(kMultiTurn.begin(), kMultiTurn.end(), category) != kMultiTurn.end();
  return is_multi_turn ? "multi_turn" : std::string(category);
}

}  // namespace talon

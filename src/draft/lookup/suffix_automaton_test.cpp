#include "draft/lookup/suffix_automaton.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "io/json_text.h"

namespace talon::suffix_automaton_test {
namespace {

using Match = SuffixAutomaton::Match;
using Tokens = std::vector<TokenId>;

std::vector<TokenId> random_text(int length, int vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  Tokens text;
  for (int i = 0; i < length; ++i)
    text.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocabulary)));
  return text;
}

/// Where each substring ends, by trying all.
std::map<Tokens, std::set<int>> ends_of_substrings(const Tokens& text) {
  std::map<Tokens, std::set<int>> ends;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    Tokens part;
    for (std::size_t end = begin; end < text.size(); ++end) {
      part.push_back(text[end]);
      ends[part].insert(static_cast<int>(end) + 1);
    }
  }
  return ends;
}

TEST(SuffixAutomaton, KnowsEverySubstringWithItsCountAndFirstPlace) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tokens text = random_text(40, 2 + static_cast<int>(seed % 4), seed);
    SuffixAutomaton automaton;
    for (const TokenId token : text) automaton.append(token);
    EXPECT_LE(automaton.states(), 2 * automaton.size());
    for (const auto& [part, ends] : ends_of_substrings(text)) {
      SuffixAutomaton::State state = SuffixAutomaton::kRoot;
      for (const TokenId token : part) {
        state = automaton.next(state, token);
        ASSERT_GE(state, 0);
      }
      EXPECT_EQ(automaton.occurrences(state), static_cast<int>(ends.size()));
      EXPECT_EQ(automaton.first_end(state), *ends.begin());
    }
  }
}

TEST(SuffixAutomaton, FollowsTheLongestEarlierSuffixWhileTheTextGrows) {
  const Tokens text = random_text(200, 3, 9);
  SuffixAutomaton automaton;
  Match match;
  for (std::size_t i = 0; i < text.size(); ++i) {
    match = automaton.advance(match, text[i]);
    automaton.append(text[i]);
    match = automaton.refreshed(match);
    const auto length = static_cast<std::size_t>(match.length);
    const auto next = text.begin() + static_cast<std::ptrdiff_t>(i + 1);
    const Tokens suffix(next - match.length, next);
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(i);
    EXPECT_TRUE(suffix.empty() ||
                std::search(text.begin(), end, suffix.begin(), suffix.end()) != end);
    EXPECT_LE(match.length, automaton.length(match.state));
    EXPECT_TRUE(length == 0 || match.length > automaton.length(automaton.link(match.state)));
    if (length <= i) {  // one token more did not occur before
      const Tokens longer(next - match.length - 1, next);
      EXPECT_EQ(std::search(text.begin(), end, longer.begin(), longer.end()), end);
    }
  }
}

TEST(SuffixAutomaton, MatchesAsTheOfficialSamDecoding) {
  std::ifstream file(TALON_TEST_DATA "/golden/methods/modelfree.json");
  const Json json =
      parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "modelfree.json");
  int checked = 0;
  for (const Json& stored : json["sam"]) {
    const auto text = stored["sequence"].get<Tokens>();
    SuffixAutomaton automaton;
    Match match;
    for (const Json& step : stored["dynamic"]) {
      while (automaton.size() < step["added"].get<int>()) {
        const TokenId token = text[static_cast<std::size_t>(automaton.size())];
        match = automaton.advance(match, token);
        automaton.append(token);
        match = automaton.refreshed(match);
      }
      const Match next = automaton.advance(match, step["next"]);
      EXPECT_EQ(next.length, step["match_length"].get<int>());
      EXPECT_EQ(automaton.first_end(next.state), step["state_min_endpos"].get<int>());
      EXPECT_EQ(automaton.states(), step["states"].get<int>());
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST(SuffixAutomaton, CountsAsTheOfficialSamDecodingOverDocuments) {
  std::ifstream file(TALON_TEST_DATA "/golden/methods/modelfree.json");
  const Json json =
      parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "modelfree.json");
  for (const Json& stored : json["sam"]) {
    const Json& fixed = stored["static"];
    SuffixAutomaton automaton;
    Tokens text;
    for (const Json& document : fixed["documents"]) {
      for (const Json& token : document) text.push_back(token);
      text.push_back(fixed["eos"]);
    }
    for (const TokenId token : text) automaton.append(token);
    Match match;  // goes on where the documents end
    for (const TokenId token : text) match = automaton.advance(match, token);
    for (const Json& step : fixed["steps"]) {
      match = automaton.advance(match, step["token"]);
      const Match next = automaton.advance(match, step["next"]);
      EXPECT_EQ(next.length, step["match_length"].get<int>());
      EXPECT_EQ(automaton.occurrences(next.state), step["cnt_endpos"].get<int>());
      EXPECT_EQ(automaton.first_end(next.state), step["min_endpos"].get<int>());
    }
  }
}

TEST(SuffixAutomaton, StaysFastOnOneTokenRepeated) {
  SuffixAutomaton automaton;
  for (int i = 0; i < 20000; ++i) automaton.append(7);
  EXPECT_EQ(automaton.states(), 20001);
  EXPECT_LE(automaton.occurrences(automaton.next(0, 7)), 20000);
}

}  // namespace
}  // namespace talon::suffix_automaton_test

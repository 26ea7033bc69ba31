#include "search/verify/Solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace heterplan;

namespace {
using F = Formula;

Truth decideOne(const F &formula) {
  llvm::Expected<std::vector<Verdict>> verdicts =
      decide({ConstraintFormula{"it", "", F::integer(0), {{"part", formula}}}});
  EXPECT_TRUE(bool(verdicts));
  return verdicts->front().truth;
}

double slackOf(const F &term) {
  llvm::Expected<std::vector<Verdict>> verdicts = decide({ConstraintFormula{"it", "", term, {}}});
  EXPECT_TRUE(bool(verdicts));
  return verdicts->front().slack;
}

TEST(Formula, DoublesHaveTheirExactValue) {
  EXPECT_EQ(exactRational(0.1), "3602879701896397/36028797018963968");
  EXPECT_EQ(exactRational(-2.5), "-5/2");
  EXPECT_EQ(exactRational(0), "0/1");
  EXPECT_EQ(exactRational(-0.0), "0/1");
  EXPECT_EQ(exactRational(std::ldexp(1, 80)), "1208925819614629174706176/1");
  EXPECT_EQ(exactRational(std::ldexp(1, -1074)).substr(0, 2), "1/");
}

TEST(Solver, ArithmeticIsExact) {
  // In doubles 0.1 + 0.2 is 0.3 rounded up; the exact sum of the two is neither.
  EXPECT_EQ(decideOne(F::equal(F::sum({F::number(0.1), F::number(0.2)}), F::number(0.1 + 0.2))),
            Truth::Fails);
  EXPECT_EQ(decideOne(F::equal(F::sum({F::number(0.5), F::number(0.25)}), F::number(0.75))),
            Truth::Holds);
  EXPECT_DOUBLE_EQ(slackOf(F::number(std::numeric_limits<double>::max())),
                   std::numeric_limits<double>::max());
}

TEST(Solver, EqualTermsOfASumEachCount) {
  F tenth = F::number(0.1), two = F::integer(2);
  // Ten of what 0.1 is as a double are more than one, exactly.
  F ten = F::sum(std::vector<F>(10, tenth));
  EXPECT_EQ(decideOne(F::equal(ten, F::product(F::integer(10), tenth))), Truth::Holds);
  EXPECT_EQ(decideOne(F::atMost(ten, F::integer(1))), Truth::Fails);
  EXPECT_DOUBLE_EQ(slackOf(F::sum({two, tenth, two, F::integer(2), F::integer(5)})), 11.1);
  EXPECT_EQ(slackOf(F::sum({two, two, F::number(INFINITY)})), 0);
  F free = F::real("x");
  EXPECT_EQ(decideOne(F::all({F::equal(F::sum({free, free, two, two}), F::integer(5)),
                              F::equal(free, F::number(0.5))})),
            Truth::Holds);
}

TEST(Solver, EachOperation) {
  F three = F::integer(3), two = F::number(2);
  EXPECT_DOUBLE_EQ(slackOf(F::product(three, two)), 6);
  EXPECT_DOUBLE_EQ(slackOf(F::quotient(three, two)), 1.5);
  EXPECT_DOUBLE_EQ(slackOf(F::maximum({three, two})), 3);
  EXPECT_DOUBLE_EQ(slackOf(F::minimum({three, two})), 2);
  EXPECT_DOUBLE_EQ(slackOf(F::difference(two, three)), -1);
  EXPECT_DOUBLE_EQ(slackOf(F::magnitude(F::difference(two, three))), 1);
  EXPECT_DOUBLE_EQ(slackOf(F::indicator(F::atMost(two, three))), 1);
  EXPECT_DOUBLE_EQ(slackOf(F::indicator(F::atMost(three, two))), 0);
  EXPECT_DOUBLE_EQ(slackOf(F::sum({})), 0);
  EXPECT_EQ(decideOne(F::divides(F::integer(3), F::integer(12))), Truth::Holds);
  EXPECT_EQ(decideOne(F::divides(F::integer(5), F::integer(12))), Truth::Fails);
  EXPECT_EQ(decideOne(F::divides(F::integer(0), F::integer(12))), Truth::Fails);
  EXPECT_EQ(decideOne(F::all({})), Truth::Holds);
  EXPECT_EQ(decideOne(F::any({F::truth(false), F::negation(F::truth(false))})), Truth::Holds);
}

TEST(Solver, WhatIsNotFiniteDoesNotHold) {
  F nan = F::number(std::nan("")), infinite = F::number(INFINITY), one = F::integer(1);
  EXPECT_EQ(decideOne(F::atMost(one, infinite)), Truth::Fails);
  EXPECT_EQ(decideOne(F::equal(nan, nan)), Truth::Fails);
  EXPECT_EQ(decideOne(F::atMost(F::integer(0), F::quotient(one, F::integer(0)))), Truth::Fails);
  EXPECT_EQ(slackOf(F::sum({one, infinite})), 0);
}

TEST(Solver, VerdictsNameThePartThatFails) {
  llvm::Expected<std::vector<Verdict>> verdicts = decide(
      {ConstraintFormula{"good", "", F::integer(0), {{"fine", F::truth(true)}}},
       ConstraintFormula{
           "bad", "", F::integer(-1), {{"fine", F::truth(true)}, {"not fine", F::truth(false)}}},
       ConstraintFormula{"empty", "", F::integer(0), {}}});
  ASSERT_TRUE(bool(verdicts));
  EXPECT_EQ((*verdicts)[0].truth, Truth::Holds);
  EXPECT_EQ((*verdicts)[1].truth, Truth::Fails);
  EXPECT_EQ((*verdicts)[1].because, "not fine");
  EXPECT_EQ((*verdicts)[1].slack, -1);
  EXPECT_EQ((*verdicts)[2].truth, Truth::Holds);
}

std::optional<std::vector<std::string>> core(std::vector<F> facts, std::vector<Part> parts) {
  auto result = contradiction(facts, parts);
  EXPECT_TRUE(bool(result));
  return *result;
}

TEST(Solver, AfterTheDeadlineNothingIsKnown) {
  double now = 0;
  Deadline deadline = Deadline::after(Seconds(1), [&] { return Seconds(now); });
  Part impossible{"impossible", F::atMost(F::integer(1), F::integer(0))};
  EXPECT_TRUE(llvm::cantFail(contradiction({}, {impossible}, deadline)).has_value());
  now = 2;
  EXPECT_FALSE(llvm::cantFail(contradiction({}, {impossible}, deadline)).has_value());
}

TEST(Solver, AContradictionIsMinimal) {
  F x = F::real("x"), n = F::count("n", 4), price = F::number(2.5);
  F atMostCount = F::atMost(x, F::product(n, F::number(10)));
  Part budget{"budget", F::atMost(F::product(price, n), F::integer(5))};
  Part floor{"floor", F::atMost(F::integer(30), x)};
  Part idle{"idle", F::atMost(x, F::integer(1000))};
  EXPECT_EQ(core({atMostCount}, {idle, budget, floor}),
            (std::vector<std::string>{"budget", "floor"}));
  EXPECT_EQ(core({atMostCount}, {idle, budget}), std::nullopt);
  Part tooMuch{"too much", F::atMost(F::integer(41), x)}; // n is at most 4
  EXPECT_EQ(core({atMostCount}, {idle, budget, tooMuch}).value().size(), 1u);
}

TEST(Solver, VariablesOfOneNameAreOne) {
  EXPECT_EQ(core({}, {{"yes", F::boolean("b")}, {"no", F::negation(F::boolean("b"))}}),
            (std::vector<std::string>{"yes", "no"}));
  EXPECT_EQ(core({}, {{"negative", F::atMost(F::real("r"), F::integer(-1))}}),
            (std::vector<std::string>{"negative"}));
}
} // namespace

<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Symfony;

use DistributedLock;
use ReflectionClass;
use RedisLease\Bridge\LeaseFactory;
use RedisLease\Tests\Bridge\Database\Needs;
use RedisLease\Tests\Support\Janitor;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Event\RequestEvent;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;

/** One kernel that serves many requests, as with FrankenPHP's worker mode, RoadRunner and Swoole. */
final class RequestEndTest extends SymfonyTestCase
{
    use Handlers;

    private Application $kernel;
    /** @var array<string, DistributedLock|LockInterface> what a service or a static property would keep */
    private array $kept = [];

    public static function setUpBeforeClass(): void
    {
        Needs::library('php-symfony-framework-bundle', 'Symfony/Bundle/FrameworkBundle/autoload.php');
        parent::setUpBeforeClass();
    }

    private function boot(): void
    {
        $this->kernel = new Application(Janitor::directory('.app'), [], ['dsn' => self::$server->dsn()]);
        $this->kernel->boot();
    }

    /** @param callable(): void $controller */
    private function serve(callable $controller, bool $terminates = true): void
    {
        $answer = static function (RequestEvent $event) use ($controller): void {
            $controller();
            $event->setResponse(new Response());
        };
        $dispatcher = $this->kernel->getContainer()->get('event_dispatcher');
        $dispatcher->addListener('kernel.request', $answer);
        $request = Request::create('/');
        $response = $this->kernel->handle($request);
        $dispatcher->removeListener('kernel.request', $answer);
        if ($terminates) {
            $this->kernel->terminate($request, $response);
        }
    }

    private function take(string $name, bool $autoRelease = true): void
    {
        $this->kept[$name] = $this->kernel->getContainer()->get(LockFactory::class)->createLock($name, 60.0, $autoRelease);
        self::assertTrue($this->kept[$name]->acquire());
    }

    private function takeNative(string $name): void
    {
        $this->kept[$name] = $this->kernel->getContainer()->get(LeaseFactory::class)->create($name, 60.0);
        self::assertTrue($this->kept[$name]->acquire());
    }

    public function testWhatARequestLeftBehindIsGivenBackAtItsEnd(): void
    {
        $this->boot();
        $this->takeNative('of the worker');
        $this->serve(function (): void {
            $this->take('lock');
            $this->takeNative('native');
            $this->take('for another process', false);
        });

        self::assertFalse($this->kept['lock']->isAcquired());
        self::assertNull(self::stored('lock'));
        self::assertNull(self::stored('native'));
        self::assertNotNull(self::stored('for another process'));
        self::assertTrue($this->kept['of the worker']->isHeld());
        $this->serve(fn () => self::assertTrue($this->kept['lock']->acquire()));
        self::assertNull(self::stored('lock'), 'the next request has taken it with the same object');
        $this->kept = [];
    }

    public function testAKernelThatIsNotTerminatedGivesBackWithTheNextRequest(): void
    {
        $this->boot();
        $this->serve(fn () => $this->take('lock'), terminates: false);
        self::assertNotNull(self::stored('lock'));

        $this->serve(static fn () => null);

        self::assertNull(self::stored('lock'));
        $this->kept = [];
    }

    public function testWhatAMessageLeftBehindInTheWorkerOfAQueueIsGivenBackAtItsEnd(): void
    {
        foreach (['Received', 'Handled', 'Failed'] as $what) {
            class_exists("Symfony\\Component\\Messenger\\Event\\WorkerMessage{$what}Event")
                || eval("namespace Symfony\\Component\\Messenger\\Event; final class WorkerMessage{$what}Event {}");
        }
        $this->boot();
        $tell = function (string $what): void {
            $class = new ReflectionClass("Symfony\\Component\\Messenger\\Event\\WorkerMessage{$what}Event");
            $this->kernel->getContainer()->get('event_dispatcher')->dispatch($class->newInstanceWithoutConstructor());
        };
        $this->takeNative('of the worker');
        foreach (['Handled', 'Failed'] as $end) {
            $tell('Received');
            $this->take('lock');
            $this->takeNative('native');
            $tell($end);

            self::assertNull(self::stored('lock'), $end);
            self::assertNull(self::stored('native'), $end);
            self::assertTrue($this->kept['of the worker']->isHeld());
        }
        $this->kept = [];
    }
}
